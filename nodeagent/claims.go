// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// claimedGPUs finds out which GPUs the devices are that DRA drivers give to containers.
type claimedGPUs struct {
	snapshot func() *gpu.Snapshot
	nodes    *cdi.Nodes
}

func newClaimedGPUs(snapshot func() *gpu.Snapshot, specDir string) *claimedGPUs {
	return &claimedGPUs{snapshot, cdi.NewNodes(cdi.AdministratorDir, specDir)}
}

// translate is a podresources.Translate. Drivers name devices as they like, but what they
// bring into a container are the GPUs' device nodes, and for slices those of their capabilities.
// Ours names GPUs by their UUIDs in lower case, as names of devices must be.
func (c *claimedGPUs) translate(device *podresources.ClaimedDevice) []string {
	nodes := c.nodes.Of(device.CDI)
	var uuids []string
	gpus := c.snapshot().Devices
	for i := range gpus {
		parts := claimedSlices(&gpus[i].Info, device, nodes)
		uuids = append(uuids, parts...)
		if len(parts) == 0 && (slices.Contains(nodes.GPUs, gpus[i].Minor) || strings.EqualFold(gpus[i].UUID, device.Name)) {
			uuids = append(uuids, gpus[i].UUID)
		}
	}
	return uuids
}

// claimedSlices returns the slices of a GPU that a claimed device is. If the device is a part of
// the GPU but it is unknown which, there are none: the whole GPU counts as claimed then.
func claimedSlices(of *gpu.Info, device *podresources.ClaimedDevice, nodes cdi.DeviceNodes) []string {
	var uuids []string
	for _, slice := range of.Slices {
		byNode := slice.Capability != gpu.Unknown && slices.Contains(nodes.Capabilities, slice.Capability)
		if byNode || slice.UUID == device.Name {
			uuids = append(uuids, slice.UUID)
		}
	}
	return uuids
}
