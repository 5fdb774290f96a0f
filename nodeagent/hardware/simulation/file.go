// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"

	"sigs.k8s.io/yaml"
)

// FaultFile is a YAML file with a list of faults. Faults that are added to the file are
// injected. When one is removed, its GPU recovers, and its other faults in the file are
// injected again.
type FaultFile struct {
	path    string
	inject  func(Fault) error
	content []byte
	faults  []Fault
}

// NewFaultFile returns a FaultFile whose faults inject injects. The file need not exist yet.
func NewFaultFile(path string, inject func(Fault) error) *FaultFile {
	return &FaultFile{path: path, inject: inject}
}

// Check reads the file and applies its changes. Call it periodically.
func (f *FaultFile) Check() error {
	content, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the faults: %w", err)
	}
	if bytes.Equal(content, f.content) {
		return nil
	}
	f.content = content
	faults, err := ParseFaults(content)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	before := f.faults
	f.faults = faults
	return f.change(before, faults)
}

func (f *FaultFile) change(before, after []Fault) error {
	var problems []error
	gone := without(before, after)
	for i := range gone {
		problems = append(problems, f.inject(Fault{Node: gone[i].Node, GPU: gone[i].GPU, Fault: Recovered}))
	}
	// A recovery ends all faults of its GPU, so the remaining ones are injected again.
	stay := slices.DeleteFunc(slices.Clone(before), func(fault Fault) bool { return slices.ContainsFunc(gone, fault.overlaps) })
	for _, fault := range without(after, stay) {
		problems = append(problems, f.inject(fault))
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
	var rest []Fault
	for _, fault := range faults {
		found := false
		for _, other := range others {
			found = found || reflect.DeepEqual(fault, other)
		}
		if !found {
			rest = append(rest, fault)
		}
	}
	return rest
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
