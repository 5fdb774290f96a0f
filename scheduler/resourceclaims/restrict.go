// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Places are GPUs by their UUIDs, by node.
type Places map[string]sets.Set[string]

// OnNode returns the slices without those of other nodes.
func OnNode(published []*resourcev1.ResourceSlice, node string) []*resourcev1.ResourceSlice {
	return slices.DeleteFunc(slices.Clone(published), func(slice *resourcev1.ResourceSlice) bool {
		return slice.Spec.NodeName != nil && *slice.Spec.NodeName != node
	})
}

// Only returns the slices as an allocator has to see them that is to allocate no other GPUs
// than those of the places: without all the other GPUs of these nodes. Devices that are no GPUs
// stay, and so do other nodes as they are.
//
// A GPU that is allocated as a whole stays as well: nobody can get it, but a driver may count
// what it takes of the counters that it shares with other devices.
func Only(published []*resourcev1.ResourceSlice, places Places, allocated func(structured.DeviceID) bool) []*resourcev1.ResourceSlice {
	return restrict(published, func(slice *resourcev1.ResourceSlice, device *resourcev1.Device) bool {
		one := gpuOf(slice, device)
		planned, confined := places[one.node]
		return !confined || !one.isGPU() || planned.Has(one.UUID) || allocated(idOf(slice, device))
	})
}

// Without returns the slices without GPUs that are kept for others.
func Without(published []*resourcev1.ResourceSlice, kept Places, allocated func(structured.DeviceID) bool) []*resourcev1.ResourceSlice {
	return restrict(published, func(slice *resourcev1.ResourceSlice, device *resourcev1.Device) bool {
		one := gpuOf(slice, device)
		return !one.isGPU() || !kept[one.node].Has(one.UUID) || allocated(idOf(slice, device))
	})
}

func idOf(slice *resourcev1.ResourceSlice, device *resourcev1.Device) structured.DeviceID {
	return structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
}

// restrict returns the slices with the devices that are to be kept. Slices that lose no device
// are the same, and none is left out: an allocator uses a pool only if all of its slices are
// there.
func restrict(published []*resourcev1.ResourceSlice, keep func(*resourcev1.ResourceSlice, *resourcev1.Device) bool) []*resourcev1.ResourceSlice {
	list := make([]*resourcev1.ResourceSlice, len(published))
	for i, slice := range published {
		kept := make([]resourcev1.Device, 0, len(slice.Spec.Devices))
		for j := range slice.Spec.Devices {
			if device := &slice.Spec.Devices[j]; keep(slice, device) {
				kept = append(kept, *device)
			}
		}
		if list[i] = slice; len(kept) < len(slice.Spec.Devices) {
			smaller := *slice
			smaller.Spec.Devices = slices.Clip(kept)
			list[i] = &smaller
		}
	}
	return list
}
