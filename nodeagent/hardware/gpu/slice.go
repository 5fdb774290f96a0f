// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Slice is a MIG device: a part of a GPU in MIG mode that programs use like a GPU of its own.
// Its health is that of the GPU.
type Slice struct {
	// UUID identifies it for as long as it exists: "MIG-c0a1f7de-…".
	UUID string
	// Profile is its size in NVIDIA's notation: "1g.10gb" has one of the GPU's seven compute
	// slices and 10 GB of memory, "1g.10gb+me" the media engines besides.
	Profile string
	// MemoryBytes is all of its memory.
	MemoryBytes uint64
	// GPUInstance and ComputeInstance are the numbers by which the driver knows its two parts
	// on the GPU, as nvidia-smi mig shows them.
	GPUInstance, ComputeInstance int
	// Capability is the number of the device file /dev/nvidia-caps/nvidia-cap<number> without
	// which no program can use the slice, or Unknown.
	Capability int
}

// Count returns how many slices there are of each profile.
func Count(list []Slice) map[string]int {
	counts := map[string]int{}
	for i := range list {
		counts[list[i].Profile]++
	}
	return counts
}

// Layout describes slices, sorted by profile: "2 × 1g.10gb, 1 × 3g.40gb"; empty without any.
func Layout(list []Slice) string {
	counts := Count(list)
	parts := make([]string, 0, len(counts))
	for _, profile := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[profile], profile))
	}
	return strings.Join(parts, ", ")
}
