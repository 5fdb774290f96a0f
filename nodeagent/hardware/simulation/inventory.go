// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	"github.com/google/uuid"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// uuids is the namespace of the UUIDs of simulated GPUs, a random number that
// must never change.
var uuids = uuid.MustParse("5d0c9be1-6d5b-4f0a-9a52-7c1a1f4be0c3")

// UUID returns the UUID of a node's simulated GPU. It survives restarts of the agent, so that
// running containers keep their devices.
func UUID(node string, index int) string {
	return "GPU-" + uuid.NewSHA1(uuids, fmt.Appendf(nil, "%s/%d", node, index)).String()
}

// firstBus is the PCI bus of the first simulated GPU.
const firstBus = 0x10

func (p *Profile) info(node string, index int) gpu.Info {
	profiles := p.profilesOf(index)
	return gpu.Info{
		Index:             index,
		UUID:              UUID(node, index),
		Product:           p.Product,
		MemoryBytes:       uint64(p.Memory.Value()), //nolint:gosec // validated to be positive
		PCIBusID:          fmt.Sprintf("00000000:%02X:00.0", firstBus+index),
		Minor:             index,
		NUMANode:          index * p.NUMANodes / *p.Count,
		ComputeCapability: p.ComputeCapability,
		MIG:               len(profiles) > 0,
		Slices:            p.slices(node, index, profiles),
	}
}

// links returns the number of NVLink connections between two GPUs.
func (p *Profile) links(i, j int) int {
	switch {
	case i == j:
		return 0
	case p.NVLink.Matrix != nil:
		return p.NVLink.Matrix[i][j]
	case p.NVLink.GroupSize > 0 && i/p.NVLink.GroupSize == j/p.NVLink.GroupSize:
		return p.NVLink.Links
	default:
		return 0
	}
}

// bridged is how many GPUs a bridge connects; more take a switch.
const bridged = 2

// hasFabric reports whether the GPUs are connected by switches.
func (p *Profile) hasFabric() bool { return p.NVLink.GroupSize > bridged }

// matrix returns the connections between the GPUs with the given indexes, or nil
// if there are none at all. A GPU whose links are not up has none.
func (p *Profile) matrix(indexes []int, up func(index int) bool) [][]int {
	matrix := make([][]int, len(indexes))
	linked := false
	for row, i := range indexes {
		matrix[row] = make([]int, len(indexes))
		for column, j := range indexes {
			if up(i) && up(j) {
				matrix[row][column] = p.links(i, j)
			}
			linked = linked || matrix[row][column] > 0
		}
	}
	if !linked {
		return nil
	}
	return matrix
}
