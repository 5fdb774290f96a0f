// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/migprofile"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// MIG slices of one profile are interchangeable: for the engine they are one resource of the node,
// like the ports of network adapters, and the kubelet decides which of them a Pod gets. So they
// are among the Others of shapes and nodes. What a GPU in MIG mode has besides them, nobody gets.

// ofOurSlices reports whether a resource counts slices that the node agent gives out.
func ofOurSlices(resource corev1.ResourceName) bool {
	_, ours := v1.MIGProfileOf(resource)
	return ours
}

// hasOurSlices reports whether any of these amounts are slices that the node agent gives out.
func hasOurSlices(amounts placement.Amounts) bool {
	for i := range amounts {
		if ofOurSlices(corev1.ResourceName(amounts[i].Resource)) {
			return true
		}
	}
	return false
}

// SlicePercent returns how much of GPUs slices are, in percent of one: their compute slices,
// divided by those of a GPU. It is rounded down, so that the slices of a GPU never count for more
// than the GPU: seven of 1g.10gb, asked for one at a time, count for 98.
func SlicePercent(amounts placement.Amounts) int {
	compute := int64(0)
	for i := range amounts {
		if profile, ok := v1.SliceProfile(corev1.ResourceName(amounts[i].Resource)); ok {
			most := int64(placement.MaxCards * migprofile.ComputeSlices)
			compute += int64(migprofile.Compute(profile)) * min(amounts[i].Value, most)
		}
	}
	return int(compute * placement.Card / migprofile.ComputeSlices)
}

// GPUPercent returns how much of GPUs a Pod of a shape gets in whatever form, in percent of one:
// whole ones, a share or slices. Queues and budgets count it.
func GPUPercent(shape *placement.Shape) int { return shape.Percent() + SlicePercent(shape.Others) }

// UsePercent is GPUPercent of what a Pod holds.
func UsePercent(use *placement.Use) int { return len(use.GPUs)*use.Percent + SlicePercent(use.Others) }

// SliceResource returns the resource of the MIG slices that a shape asks for; empty if it asks for
// whole GPUs or a share of one, or for no slices.
func SliceResource(shape *placement.Shape) string {
	if shape.Percent() > 0 {
		return ""
	}
	return firstSlices(shape.Others)
}

// SlicesOf is SliceResource of what a Pod holds.
func SlicesOf(use *placement.Use) string {
	if len(use.GPUs) > 0 {
		return ""
	}
	return firstSlices(use.Others)
}

func firstSlices(amounts placement.Amounts) string {
	for i := range amounts {
		if _, ok := v1.SliceProfile(corev1.ResourceName(amounts[i].Resource)); ok {
			return amounts[i].Resource
		}
	}
	return ""
}

// AssignedSlices returns the UUIDs of the MIG slices that a Pod's assignment annotation names,
// sorted; none if the Pod asks for none, or for fewer.
func AssignedSlices(pod *corev1.Pod) []string {
	uuids := assignedDevices(pod, func(name corev1.ResourceName) bool {
		_, ok := v1.SliceProfile(name)
		return ok
	})
	wanted := int64(0)
	for _, count := range RequestedSlices(pod) {
		wanted += count
	}
	if int64(len(uuids)) > wanted {
		return nil // the kubelet has not given the Pod that many
	}
	return uuids
}

// RequestedSlices returns how many MIG slices a Pod asks for, by profile; nil if none.
func RequestedSlices(pod *corev1.Pod) map[string]int64 {
	if !WantsSlices(pod) {
		return nil
	}
	wanted := map[string]int64{}
	for name, amount := range Requests(pod) {
		if profile, ok := v1.SliceProfile(name); ok {
			wanted[profile] += amount.Value()
		}
	}
	return wanted
}
