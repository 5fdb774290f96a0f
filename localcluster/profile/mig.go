// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/migprofile"
)

// gpuResources returns the GPUs of a node as device plugins offer them: those that are whole, as
// such and in percent, and the slices of each profile. Without any it has no entry.
func (g *NodeGroup) gpuResources() corev1.ResourceList {
	counts := map[corev1.ResourceName]int{}
	whole := g.GPUsPerNode
	for _, division := range g.MIG {
		gpus := division.gpus(whole)
		whole -= gpus
		for _, profile := range division.Slices {
			counts[v1.MIGResource(profile)] += gpus
		}
	}
	counts[v1.ResourceGPU], counts[v1.ResourceGPUPercent] = whole, 100*whole
	resources := corev1.ResourceList{}
	for name, count := range counts {
		if count > 0 {
			resources[name] = *resource.NewQuantity(int64(count), resource.DecimalSI)
		}
	}
	return resources
}

// gpus returns how many of the GPUs that are left are divided.
func (d *Division) gpus(left int) int {
	if d.GPUs == 0 {
		return left
	}
	return d.GPUs
}

func validateMIG(path *field.Path, group *NodeGroup) field.ErrorList {
	var errs field.ErrorList
	memory := quantity(group.GPUMemory)
	left := group.GPUsPerNode
	for i, division := range group.MIG {
		at := path.Index(i)
		if division.GPUs < 0 || division.GPUs > left || left == 0 {
			errs = append(errs, field.Invalid(at.Child("gpus"), division.GPUs, fmt.Sprintf("%d GPUs of the node are left to be divided", left)))
		}
		left -= division.gpus(left)
		if len(division.Slices) == 0 {
			errs = append(errs, field.Required(at.Child("slices"), "the profiles of each GPU's slices, for example [3g.40gb, 3g.40gb]"))
		}
		if memory.Value() <= 0 {
			continue // reported already
		}
		if err := migprofile.Fit(division.Slices, memory.Value()); err != nil {
			errs = append(errs, field.Invalid(at.Child("slices"), strings.Join(division.Slices, ", "), err.Error()))
		}
	}
	return errs
}
