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

// nvidiaNode is the path of the device node of one of NVIDIA's GPUs, before its minor number.
const nvidiaNode = "/dev/nvidia"

// Minors returns the minor numbers of NVIDIA's GPUs that a container gets with CDI devices.
// Devices that are not described, or not correctly, bring none.
func (n *Nodes) Minors(names []string) []int {
	_ = n.cache.Refresh() // its errors concern other devices; those that are described are found
	var minors []int
	for _, name := range names {
		device := n.cache.GetDevice(name)
		if device == nil {
			continue
		}
		for _, node := range device.ContainerEdits.DeviceNodes {
			if number, found := strings.CutPrefix(node.Path, nvidiaNode); found {
				if minor, err := strconv.Atoi(number); err == nil {
					minors = append(minors, minor)
				}
			}
		}
	}
	return minors
}
