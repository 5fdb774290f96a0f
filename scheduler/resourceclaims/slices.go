// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"maps"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// The attributes by which drivers name the GPU of a device, as NVIDIA's driver does. Names
// without a domain belong to the driver.
const (
	attributeUUID       = "uuid"
	attributeParentUUID = "parentUUID"
)

// gpu is a GPU of a node.
type gpu struct{ node, uuid string }

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
// if it is new or gone. It reports whether anything has changed.
func (p *published) update(before, after *resourcev1.ResourceSlice) (changed bool) {
	was, is := gpusOf(before), gpusOf(after)
	if maps.Equal(was, is) {
		return false
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
	return true
}

// gpusOf returns the devices of a ResourceSlice that are GPUs.
func gpusOf(slice *resourcev1.ResourceSlice) map[structured.DeviceID]gpu {
	if slice == nil {
		return nil
	}
	gpus := map[structured.DeviceID]gpu{}
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		one := gpu{node: nodeOf(slice, device), uuid: uuidOf(slice.Spec.Driver, device.Attributes)}
		if one.node != "" && one.uuid != "" {
			gpus[structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, device.Name)] = one
		}
	}
	return gpus
}

// nodeOf returns the one node of a device, "" for a device that is not of one node.
func nodeOf(slice *resourcev1.ResourceSlice, device *resourcev1.Device) string {
	switch {
	case slice.Spec.NodeName != nil:
		return *slice.Spec.NodeName
	case device.NodeName != nil:
		return *device.NodeName
	}
	return ""
}

func uuidOf(driver string, attributes map[resourcev1.QualifiedName]resourcev1.DeviceAttribute) string {
	for _, name := range []string{attributeParentUUID, attributeUUID} {
		for _, qualified := range []string{name, driver + "/" + name} {
			if value := attributes[resourcev1.QualifiedName(qualified)].StringValue; value != nil {
				return *value
			}
		}
	}
	return ""
}

// none reports whether no device is known to be a GPU.
func (p *published) none() bool { return len(p.devices) == 0 && len(p.gone) == 0 }

// of returns the GPUs that a device may be: more than one only while its slices differ.
func (p *published) of(id structured.DeviceID) []gpu {
	if one, gone := p.gone[id]; gone {
		return []gpu{one}
	}
	var gpus []gpu
	for _, one := range p.devices[id] {
		gpus = append(gpus, one)
	}
	return gpus
}

// forget drops the devices that are gone and in no claim.
func (p *published) forget(held func(structured.DeviceID) bool) {
	maps.DeleteFunc(p.gone, func(id structured.DeviceID, _ gpu) bool { return !held(id) })
}
