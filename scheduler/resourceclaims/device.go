// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package resourceclaims

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"falldio.github.io/gpu-controller/pkg/gpumodel"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// The attributes and capacities by which drivers describe the GPU of a device, as NVIDIA's
// driver and ours do. Names without a domain belong to the driver.
const (
	attributeUUID       = "uuid"
	attributeParentUUID = "parentUUID"
	attributeProduct    = "productName"
	attributeModel      = "model"
	attributeNUMANode   = "numaNode"
	capacityMemory      = "memory"
	// capacityPercent is how much of a GPU is given out, if a driver shares it.
	capacityPercent = "percent"
)

const bytesPerMiB = 1 << 20

// gpu is a device that is a GPU of a node, or a part of one.
type gpu struct {
	snapshot.PublishedGPU
	node string
	// part is true for a part of the GPU, a MIG slice.
	part bool
}

// gpuOf returns the GPU that a device is; its node or its UUID is empty if it is none.
func gpuOf(slice *resourcev1.ResourceSlice, device *resourcev1.Device) gpu {
	described := description{slice.Spec.Driver, device}
	one := gpu{node: nodeOf(slice, device)}
	if one.UUID = described.text(attributeParentUUID); one.UUID != "" {
		one.part = true
		return one
	}
	one.UUID, one.NUMANode, one.Tainted = described.text(attributeUUID), described.number(attributeNUMANode, -1), isTainted(device)
	one.MemoryMiB = described.capacity(capacityMemory) / bytesPerMiB
	if one.Model = gpumodel.Normalize(described.text(attributeProduct)); one.Model == "" {
		one.Model = gpumodel.Normalize(described.text(attributeModel))
	}
	return one
}

// isGPU reports whether the device is a GPU of one node, or a part of one.
func (g *gpu) isGPU() bool { return g.node != "" && g.UUID != "" }

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

// isTainted reports whether claims don't get a device, unless they tolerate its taints.
func isTainted(device *resourcev1.Device) bool {
	return slices.ContainsFunc(device.Taints, func(taint resourcev1.DeviceTaint) bool {
		return taint.Effect == resourcev1.DeviceTaintEffectNoSchedule || taint.Effect == resourcev1.DeviceTaintEffectNoExecute
	})
}

// description is what a driver says of a device.
type description struct {
	driver string
	device *resourcev1.Device
}

// names returns how an attribute or capacity of the driver may be written.
func (d description) names(name string) [2]resourcev1.QualifiedName {
	return [...]resourcev1.QualifiedName{resourcev1.QualifiedName(name), resourcev1.QualifiedName(d.driver + "/" + name)}
}

func (d description) text(name string) string {
	for _, qualified := range d.names(name) {
		if value := d.device.Attributes[qualified].StringValue; value != nil {
			return *value
		}
	}
	return ""
}

func (d description) number(name string, missing int) int {
	for _, qualified := range d.names(name) {
		if value := d.device.Attributes[qualified].IntValue; value != nil {
			return int(*value)
		}
	}
	return missing
}

func (d description) capacity(name string) int64 {
	for _, qualified := range d.names(name) {
		if capacity, has := d.device.Capacity[qualified]; has {
			return capacity.Value.Value()
		}
	}
	return 0
}
