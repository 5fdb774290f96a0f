// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/pkg/configfile"
)

// FaultFile is a YAML file with a list of faults. Faults that are added to the file are
// injected. When one is removed, its GPU recovers, and its other faults in the file are
// injected again.
type FaultFile = configfile.Watched[[]Fault]

// NewFaultFile returns a FaultFile whose faults inject injects.
func NewFaultFile(path string, inject func(Fault) error) *FaultFile {
	return &FaultFile{What: "the faults", Path: path, Parse: ParseFaults, Apply: func(before, after []Fault) error {
		return change(before, after, inject)
	}}
}

func change(before, after []Fault, inject func(Fault) error) error {
	var problems []error
	gone := without(before, after)
	for i := range gone {
		problems = append(problems, inject(Fault{Node: gone[i].Node, GPU: gone[i].GPU, Fault: Recovered}))
	}
	// A recovery ends all faults of its GPU, so the remaining ones are injected again.
	stay := slices.DeleteFunc(slices.Clone(before), func(fault Fault) bool { return slices.ContainsFunc(gone, fault.overlaps) })
	for _, fault := range without(after, stay) {
		problems = append(problems, inject(fault))
	}
	return errors.Join(problems...)
}

// overlaps reports whether both faults may concern the same GPU.
func (f Fault) overlaps(other Fault) bool {
	sameNode := f.Node == other.Node || f.Node == "" || other.Node == ""
	return sameNode && (f.GPU == nil || other.GPU == nil || *f.GPU == *other.GPU)
}

// without returns the faults that are not among others.
func without(faults, others []Fault) []Fault {
	return slices.DeleteFunc(slices.Clone(faults), func(fault Fault) bool {
		return slices.ContainsFunc(others, func(other Fault) bool { return reflect.DeepEqual(fault, other) })
	})
}

// ParseFaults parses a list of faults from YAML. It can't check whether their GPUs exist.
func ParseFaults(data []byte) ([]Fault, error) {
	var faults []Fault
	if err := yaml.UnmarshalStrict(data, &faults); err != nil {
		return nil, err
	}
	for i := range faults {
		if err := faults[i].validate(maxGPUs); err != nil {
			return nil, fmt.Errorf("fault %d: %w", i+1, err)
		}
	}
	return faults, nil
}
