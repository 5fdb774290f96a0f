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

// administratorDir has CDI specifications that an administrator has written.
const administratorDir = "/etc/cdi"

// claimedGPUs finds out which GPUs the devices are that DRA drivers give to containers.
type claimedGPUs struct {
	snapshot func() *gpu.Snapshot
	nodes    *cdi.Nodes
}

func newClaimedGPUs(snapshot func() *gpu.Snapshot, specDir string) (*claimedGPUs, error) {
	nodes, err := cdi.NewNodes(administratorDir, specDir)
	return &claimedGPUs{snapshot, nodes}, err
}

// translate is a podresources.Translate. Drivers name devices as they like, but what they
// bring into a container are the GPUs' device nodes. Ours names them by their UUIDs in lower
// case, as names of devices must be.
func (c *claimedGPUs) translate(device *podresources.ClaimedDevice) []string {
	minors := c.nodes.Minors(device.CDI)
	var uuids []string
	gpus := c.snapshot().Devices
	for i := range gpus {
		if slices.Contains(minors, gpus[i].Minor) || strings.EqualFold(gpus[i].UUID, device.Name) {
			uuids = append(uuids, gpus[i].UUID)
		}
	}
	return uuids
}
