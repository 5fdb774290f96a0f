// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"cmp"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// published are the devices that are GPUs, or parts of one.
type published struct {
	// devices has, for each device, what each ResourceSlice says that publishes it: while a
	// driver replaces its slices, there may be several.
	devices map[structured.DeviceID]map[string]gpu
	// gone are devices that no slice publishes any more. The kubelet deletes the slices of its
	// node when it starts, and when a driver is away, while Pods go on using the devices.
	gone map[structured.DeviceID]gpu
}

func newPublished() published {
	return published{devices: map[structured.DeviceID]map[string]gpu{}, gone: map[structured.DeviceID]gpu{}}
}

// update replaces what a ResourceSlice published by what it does now; before or after is nil
// if it is new or gone. It reports whether anything has changed, and whether that is more than
// how the same GPUs are described.
func (p *published) update(before, after *resourcev1.ResourceSlice) (changed, others bool) {
	was, is := gpusOf(before), gpusOf(after)
	if maps.Equal(was, is) {
		return false, false
	}
	for id, one := range was {
		delete(p.devices[id], before.Name)
		if len(p.devices[id]) == 0 {
			delete(p.devices, id)
			p.gone[id] = one
		}
	}
	for id, one := range is {
		if p.devices[id] == nil {
			p.devices[id] = map[string]gpu{}
		}
		p.devices[id][after.Name] = one
		delete(p.gone, id)
	}
	return true, !maps.EqualFunc(was, is, func(a, b gpu) bool { return a.node == b.node && a.UUID == b.UUID && a.part == b.part })
}

// gpusOf returns the devices of a ResourceSlice that are GPUs, or parts of one.
func gpusOf(slice *resourcev1.ResourceSlice) map[structured.DeviceID]gpu {
	if slice == nil {
		return nil
	}
	gpus := map[structured.DeviceID]gpu{}
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		if one := gpuOf(slice, device); one.isGPU() {
			gpus[structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)] = one
		}
	}
	return gpus
}

// none reports whether no device is known to be a GPU.
func (p *published) none() bool { return len(p.devices) == 0 && len(p.gone) == 0 }

// of returns the GPUs that a device may be: more than one only while its slices differ.
func (p *published) of(id structured.DeviceID) []gpu {
	if one, gone := p.gone[id]; gone {
		return []gpu{one}
	}
	return slices.Collect(maps.Values(p.devices[id]))
}

// forget drops the devices that are gone and in no claim.
func (p *published) forget(held func(structured.DeviceID) bool) {
	maps.DeleteFunc(p.gone, func(id structured.DeviceID, _ gpu) bool { return !held(id) })
}

// whole returns the whole GPUs that are published, by node, in the order of their UUIDs.
func (p *published) whole() map[string][]snapshot.PublishedGPU {
	byNode := map[string][]snapshot.PublishedGPU{}
	for _, variants := range p.devices {
		for _, one := range variants {
			if !one.part {
				byNode[one.node] = append(byNode[one.node], one.PublishedGPU)
			}
		}
	}
	for node, gpus := range byNode {
		slices.SortFunc(gpus, func(a, b snapshot.PublishedGPU) int {
			return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Model, b.Model), cmp.Compare(a.MemoryMiB, b.MemoryMiB))
		})
		byNode[node] = slices.CompactFunc(gpus, func(a, b snapshot.PublishedGPU) bool { return a.UUID == b.UUID })
	}
	return byNode
}
