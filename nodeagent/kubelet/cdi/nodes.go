// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// Nodes looks up which device nodes CDI devices bring into a container, whoever has described
// them.
type Nodes struct{ cache *cdi.Cache }

// NewNodes returns Nodes for the specifications in these directories; later ones take
// precedence.
func NewNodes(dirs ...string) (*Nodes, error) {
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	return &Nodes{cache: cache}, nil
}

// The paths of the device nodes of one of NVIDIA's GPUs, and of a capability, before their
// minor numbers.
const (
	nvidiaNode     = "/dev/nvidia"
	capabilityNode = "/dev/nvidia-caps/nvidia-cap"
)

// DeviceNodes are the device nodes of NVIDIA's that a container gets, by their minor numbers.
type DeviceNodes struct {
	// GPUs are those of GPUs.
	GPUs []int
	// Capabilities are those that grant access to parts of GPUs in MIG mode.
	Capabilities []int
}

// Of returns the device nodes that a container gets with CDI devices. Devices that are not
// described, or not correctly, bring none.
func (n *Nodes) Of(names []string) DeviceNodes {
	_ = n.cache.Refresh() // its errors concern other devices; those that are described are found
	var found DeviceNodes
	for _, name := range names {
		device := n.cache.GetDevice(name)
		if device == nil {
			continue
		}
		for _, node := range device.ContainerEdits.DeviceNodes {
			if minor, ok := minorOf(node.Path, nvidiaNode); ok {
				found.GPUs = append(found.GPUs, minor)
			}
			if minor, ok := minorOf(node.Path, capabilityNode); ok {
				found.Capabilities = append(found.Capabilities, minor)
			}
		}
	}
	return found
}

// minorOf returns the number at the end of a path, after what precedes it.
func minorOf(path, before string) (minor int, ok bool) {
	number, found := strings.CutPrefix(path, before)
	if !found {
		return 0, false
	}
	const bits = 20 // of a minor number in Linux
	value, err := strconv.ParseUint(number, 10, bits)
	return int(value), err == nil
}
