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
	// unchecked are those that may be in no claim, among them all that are gone and in none.
	unchecked map[structured.DeviceID]struct{}
	// nodes has the devices of each node, and some that no longer are.
	nodes map[string]map[structured.DeviceID]struct{}
	// changed are the nodes whose GPUs may have changed since they were last told; told is true once they were.
	changed map[string]struct{}
	told    bool
}

func newPublished() published {
	return published{
		devices: map[structured.DeviceID]map[string]gpu{}, gone: map[structured.DeviceID]gpu{}, unchecked: map[structured.DeviceID]struct{}{},
		nodes: map[string]map[structured.DeviceID]struct{}{}, changed: map[string]struct{}{},
	}
}

// update replaces what a ResourceSlice published by what it does now; before or after is nil
// if it is new or gone.
func (p *published) update(before *resourcev1.ResourceSlice, was map[structured.DeviceID]gpu, after *resourcev1.ResourceSlice, is map[structured.DeviceID]gpu) {
	for id, one := range was {
		p.changed[one.node] = struct{}{}
		delete(p.devices[id], before.Name)
		if len(p.devices[id]) == 0 {
			delete(p.devices, id)
			p.gone[id] = one
			p.check(id)
		}
	}
	for id, one := range is {
		p.changed[one.node] = struct{}{}
		if p.nodes[one.node] == nil {
			p.nodes[one.node] = map[structured.DeviceID]struct{}{}
		}
		p.nodes[one.node][id] = struct{}{}
		if p.devices[id] == nil {
			p.devices[id] = map[string]gpu{}
		}
		p.devices[id][after.Name] = one
		delete(p.gone, id)
	}
}

// sameGPUs reports whether nothing has changed but how the same GPUs are described.
func sameGPUs(was, is map[structured.DeviceID]gpu) bool {
	return maps.EqualFunc(was, is, func(a, b gpu) bool { return a.node == b.node && a.UUID == b.UUID && a.part == b.part })
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

// check has forget look at a device.
func (p *published) check(id structured.DeviceID) { p.unchecked[id] = struct{}{} }

// forget drops the devices that are gone and in no claim.
func (p *published) forget(held func(structured.DeviceID) bool) {
	for id := range p.unchecked {
		if !held(id) {
			delete(p.gone, id)
		}
	}
	clear(p.unchecked)
}

// on calls do with the devices of a node.
func (p *published) on(node string, do func(structured.DeviceID, gpu)) {
	for id := range p.nodes[node] {
		found := false
		for _, one := range p.of(id) {
			if one.node == node {
				found = true
				do(id, one)
			}
		}
		if !found {
			delete(p.nodes[node], id)
		}
	}
	if len(p.nodes[node]) == 0 {
		delete(p.nodes, node)
	}
}

// takeChanged returns the whole GPUs that are published, in the order of their UUIDs, on the nodes on which they may
// have changed since the last call; it is not nil on the first.
func (p *published) takeChanged() (changed map[string][]snapshot.PublishedGPU) {
	if len(p.changed) == 0 && p.told {
		return nil
	}
	changed, p.told = make(map[string][]snapshot.PublishedGPU, len(p.changed)), true
	for node := range p.changed {
		changed[node] = p.whole(node)
	}
	clear(p.changed)
	return changed
}

// whole returns the whole GPUs that are published of a node, in the order of their UUIDs.
func (p *published) whole(node string) (gpus []snapshot.PublishedGPU) {
	p.on(node, func(id structured.DeviceID, one gpu) {
		if _, gone := p.gone[id]; !gone && !one.part {
			gpus = append(gpus, one.PublishedGPU)
		}
	})
	slices.SortFunc(gpus, func(a, b snapshot.PublishedGPU) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Model, b.Model), cmp.Compare(a.MemoryMiB, b.MemoryMiB))
	})
	return slices.CompactFunc(gpus, func(a, b snapshot.PublishedGPU) bool { return a.UUID == b.UUID })
}
