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
	var those []*resourcev1.ResourceSlice
	for _, slice := range published {
		if slice.Spec.NodeName == nil || *slice.Spec.NodeName == node {
			those = append(those, slice)
		}
	}
	return those
}

// Only returns the slices as an allocator has to see them that is to allocate no other GPUs
// than those of the places: without all the other GPUs of these nodes. Devices that are no GPUs
// stay, and so do other nodes as they are.
//
// A GPU that is allocated as a whole stays as well: nobody can get it, but a driver may count
// what it takes of the counters that it shares with other devices.
func Only(published []*resourcev1.ResourceSlice, places Places, allocated func(structured.DeviceID) bool) []*resourcev1.ResourceSlice {
	return restrict(published, places, func(slice *resourcev1.ResourceSlice, device *resourcev1.Device) bool {
		one := gpuOf(slice, device)
		planned, confined := places[one.node]
		return !confined || !one.isGPU() || planned.Has(one.UUID) || allocated(idOf(slice, device))
	})
}

// Without returns the slices without GPUs that are kept for others.
func Without(published []*resourcev1.ResourceSlice, kept Places, allocated func(structured.DeviceID) bool) []*resourcev1.ResourceSlice {
	return restrict(published, kept, func(slice *resourcev1.ResourceSlice, device *resourcev1.Device) bool {
		one := gpuOf(slice, device)
		return !one.isGPU() || !kept[one.node].Has(one.UUID) || allocated(idOf(slice, device))
	})
}

func idOf(slice *resourcev1.ResourceSlice, device *resourcev1.Device) structured.DeviceID {
	return structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)
}

// restrict returns the slices with the devices that are to be kept; those on nodes of no place are. Slices that lose no
// device are the same, and none is left out: an allocator uses a pool only if all of its slices are there.
func restrict(published []*resourcev1.ResourceSlice, places Places, keep func(*resourcev1.ResourceSlice, *resourcev1.Device) bool) []*resourcev1.ResourceSlice {
	list := slices.Clone(published)
	for i, slice := range list {
		if slice.Spec.NodeName != nil {
			if _, concerned := places[*slice.Spec.NodeName]; !concerned {
				continue
			}
		}
		dropped := func(device *resourcev1.Device) bool { return !keep(slice, device) }
		if !containsDevice(slice.Spec.Devices, dropped) {
			continue
		}
		smaller := *slice
		smaller.Spec.Devices = nil
		for j := range slice.Spec.Devices {
			if device := &slice.Spec.Devices[j]; !dropped(device) {
				smaller.Spec.Devices = append(smaller.Spec.Devices, *device)
			}
		}
		list[i] = &smaller
	}
	return list
}

func containsDevice(devices []resourcev1.Device, is func(*resourcev1.Device) bool) bool {
	for i := range devices {
		if is(&devices[i]) {
			return true
		}
	}
	return false
}
