// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation is a source of simulated GPUs: their number, model and links come from
// a profile, their load from a formula, and their faults are injected.
package simulation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"falldio.github.io/gpu-controller/pkg/configfile"
	"falldio.github.io/gpu-controller/pkg/migprofile"
)

// Profile describes the simulated GPUs of one node. All are of one model.
type Profile struct {
	// Product is the vendor's name of the GPUs, "NVIDIA H100 80GB HBM3" by
	// default.
	Product string `json:"product,omitempty"`
	// Count is the number of GPUs, 8 by default.
	Count *int `json:"count,omitempty"`
	// Memory of each GPU, "81559Mi" by default.
	Memory *resource.Quantity `json:"memory,omitempty"`
	// Driver and CUDA are versions, "570.124.06" and "12.8" by default.
	Driver string `json:"driver,omitempty"`
	CUDA   string `json:"cuda,omitempty"`
	// ComputeCapability is "9.0" by default.
	ComputeCapability string `json:"computeCapability,omitempty"`
	// PowerLimitWatts is 700 by default. An idle GPU draws a tenth of it.
	PowerLimitWatts int `json:"powerLimitWatts,omitempty"`
	// NUMANodes is the number of NUMA nodes over which the GPUs are spread in
	// blocks, 2 by default.
	NUMANodes int `json:"numaNodes,omitempty"`
	// NVLink connects the GPUs; by default all reach each other, as through a
	// switch.
	NVLink *NVLink `json:"nvlink,omitempty"`
	// MIG divides GPUs into slices, from GPU 0 on. Those that are left over are whole.
	MIG []migprofile.Division `json:"mig,omitempty"`
	// Load determines the measurements.
	Load Load `json:"load,omitzero"`
}

// NVLink is given as groups of equal size or as a matrix.
type NVLink struct {
	// GroupSize is how many GPUs with consecutive indexes are connected: 2 for bridged
	// pairs, the number of GPUs for a switch, 0 for no NVLink.
	GroupSize int `json:"groupSize,omitempty"`
	// Links is the number of connections of each pair in a group, 18 by default.
	Links int `json:"links,omitempty"`
	// Matrix has the number of connections of every pair instead.
	Matrix [][]int `json:"matrix,omitempty"`
}

// Load is the range of the measurements.
type Load struct {
	// Seed varies the curves.
	Seed uint64 `json:"seed,omitempty"`
	// Period is the period of the curves, 10m by default.
	Period *metav1.Duration `json:"period,omitempty"`
	// Utilization and Memory are shares from 0 to 1. By default utilization
	// moves between 0.2 and 0.9, memory between 0.3 and 0.4.
	Utilization *Range `json:"utilization,omitempty"`
	Memory      *Range `json:"memory,omitempty"`
}

// Range is a lowest and a highest share.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// maxGPUs is more than any machine has.
const maxGPUs = 128

// Default returns the profile of a machine with eight H100.
func Default() *Profile {
	profile := &Profile{}
	profile.setDefaults()
	return profile
}

// LoadProfile loads a profile from a YAML file.
func LoadProfile(path string) (*Profile, error) {
	return configfile.Load("the simulation's profile", path, ParseProfile)
}

// ParseProfile parses a profile from YAML. An error names the invalid field.
func ParseProfile(data []byte) (*Profile, error) {
	profile := &Profile{}
	if err := yaml.UnmarshalStrict(data, profile); err != nil {
		return nil, err
	}
	if err := profile.Complete(); err != nil {
		return nil, err
	}
	return profile, nil
}

// Complete sets the defaults and validates the result. An error names the invalid field.
func (p *Profile) Complete() error {
	p.setDefaults()
	return p.validate(nil).ToAggregate()
}

func (p *Profile) validate(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	require := func(holds bool, name string, value any, must string) {
		if !holds {
			problems = append(problems, field.Invalid(path.Child(name), value, "must be "+must))
		}
	}
	require(*p.Count >= 0 && *p.Count <= maxGPUs, "count", *p.Count, fmt.Sprintf("between 0 and %d", maxGPUs))
	require(p.Memory.Value() > 0, "memory", p.Memory.String(), "greater than 0")
	require(p.PowerLimitWatts > 0, "powerLimitWatts", p.PowerLimitWatts, "greater than 0")
	require(p.NUMANodes > 0 && p.NUMANodes <= maxGPUs, "numaNodes", p.NUMANodes, fmt.Sprintf("between 1 and %d", maxGPUs))
	load := path.Child("load")
	problems = append(problems, p.Load.validate(load)...)
	problems = append(problems, migprofile.ValidateDivisions(path.Child("mig"), p.MIG, *p.Count, p.Memory.Value())...)
	return append(problems, p.NVLink.validate(path.Child("nvlink"), *p.Count)...)
}

func (l *Load) validate(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	if l.Period.Duration <= 0 {
		problems = append(problems, field.Invalid(path.Child("period"), l.Period.Duration.String(), "must be greater than 0"))
	}
	problems = append(problems, l.Utilization.validate(path.Child("utilization"))...)
	return append(problems, l.Memory.validate(path.Child("memory"))...)
}

func (r *Range) validate(path *field.Path) field.ErrorList {
	if r.Low >= 0 && r.Low <= r.High && r.High <= 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, fmt.Sprintf("%v to %v", r.Low, r.High), "must be a low and a high share with 0 <= low <= high <= 1")}
}

func (n *NVLink) validate(path *field.Path, gpus int) field.ErrorList {
	switch {
	case n.GroupSize < 0:
		return field.ErrorList{field.Invalid(path.Child("groupSize"), n.GroupSize, "must not be negative")}
	case n.Links < 0:
		return field.ErrorList{field.Invalid(path.Child("links"), n.Links, "must not be negative")}
	case n.Matrix == nil:
		return nil
	case n.GroupSize > 0:
		return field.ErrorList{field.Invalid(path.Child("groupSize"), n.GroupSize, "must not be set together with a matrix")}
	case n.Links > 0:
		return field.ErrorList{field.Invalid(path.Child("links"), n.Links, "must not be set together with a matrix")}
	}
	return validateMatrix(path.Child("matrix"), n.Matrix, gpus)
}

func validateMatrix(path *field.Path, matrix [][]int, gpus int) field.ErrorList {
	if len(matrix) != gpus {
		return field.ErrorList{field.Invalid(path, len(matrix), fmt.Sprintf("must have as many rows as there are GPUs, %d", gpus))}
	}
	for i, row := range matrix {
		if len(row) != gpus {
			return field.ErrorList{field.Invalid(path.Index(i), len(row), fmt.Sprintf("must have as many numbers as there are GPUs, %d", gpus))}
		}
	}
	for i, row := range matrix {
		for j, links := range row {
			if links < 0 || links != matrix[j][i] || (i == j && links != 0) {
				return field.ErrorList{field.Invalid(path.Index(i).Index(j), links, "the matrix must be symmetric, with zeros from corner to corner and nothing negative")}
			}
		}
	}
	return nil
}
