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

// FaultFile is a YAML file with a list of faults. Those that were not there the
// last time happen. When one disappears, its GPU recovers; what else the file has
// for that GPU happens again.
type FaultFile struct {
	path    string
	inject  func(Fault) error
	content []byte
	faults  []Fault
}

// NewFaultFile watches a file that need not exist yet. inject makes a fault
// happen.
func NewFaultFile(path string, inject func(Fault) error) *FaultFile {
	return &FaultFile{path: path, inject: inject}
}

// Check reads the file and makes happen what changed in it. It is to be called
// again and again.
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
	// Others of a GPU that recovers end with the one that is gone.
	stay := slices.DeleteFunc(slices.Clone(before), func(fault Fault) bool { return slices.ContainsFunc(gone, fault.meets) })
	for _, fault := range without(after, stay) {
		problems = append(problems, f.inject(fault))
	}
	return errors.Join(problems...)
}

// meets reports whether both faults may be about the same GPU.
func (f Fault) meets(other Fault) bool {
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

// ParseFaults reads a list of faults from YAML. Whether there is such a GPU only
// its Source knows.
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
