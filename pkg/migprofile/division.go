// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package migprofile

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Division divides GPUs with consecutive indexes, each into the same slices.
type Division struct {
	// GPUs is how many GPUs are divided; all that are left if it is 0.
	GPUs int `json:"gpus,omitempty"`
	// Slices are the profiles of each GPU's slices: "1g.10gb", "3g.40gb".
	Slices []string `json:"slices"`
}

// Divided returns how many of the GPUs that are left are divided.
func (d *Division) Divided(left int) int {
	if d.GPUs == 0 {
		return left
	}
	return d.GPUs
}

// ValidateDivisions returns what is wrong with how the GPUs of a node are divided, in their order.
func ValidateDivisions(path *field.Path, divisions []Division, gpus int, gpuBytes int64) field.ErrorList {
	var problems field.ErrorList
	left := gpus
	for i := range divisions {
		at, division := path.Index(i), &divisions[i]
		if division.GPUs < 0 || division.GPUs > left || left == 0 {
			problems = append(problems, field.Invalid(at.Child("gpus"), division.GPUs, fmt.Sprintf("%d GPUs of the node are left to be divided", left)))
		}
		left -= division.Divided(left)
		if len(division.Slices) == 0 {
			problems = append(problems, field.Required(at.Child("slices"), "the profiles of each GPU's slices, for example [3g.40gb, 3g.40gb]"))
		}
		if gpuBytes <= 0 {
			continue // reported already
		}
		if err := Fit(division.Slices, gpuBytes); err != nil {
			problems = append(problems, field.Invalid(at.Child("slices"), strings.Join(division.Slices, ", "), err.Error()))
		}
	}
	return problems
}
