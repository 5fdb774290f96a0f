// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package labels

import (
	"strconv"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// migLabels returns the labels about MIG slices: how many there are of each profile, whatever
// their health, how much memory the smallest of these has, and the strategy of NVIDIA's device
// plugin that the node is fit for. There are none without slices.
func migLabels(devices []gpu.Device) map[string]string {
	counts, memory := map[string]int{}, map[string]uint64{}
	everyGPU := true
	for i := range devices {
		everyGPU = everyGPU && len(devices[i].Slices) > 0
		for _, slice := range devices[i].Slices {
			name := string(v1.MIGResource(slice.Profile))
			if counts[name]++; counts[name] == 1 || slice.MemoryBytes < memory[name] {
				memory[name] = slice.MemoryBytes
			}
		}
	}
	labels := map[string]string{}
	for name, count := range counts {
		labels[name+v1.MIGCountSuffix] = strconv.Itoa(count)
		if memory[name] > 0 {
			labels[name+v1.MIGMemorySuffix] = strconv.FormatUint(memory[name]/bytesPerMiB, 10)
		}
	}
	switch {
	case len(counts) == 1 && everyGPU:
		labels[v1.LabelMIGStrategy] = v1.MIGSingle
	case len(counts) > 0:
		labels[v1.LabelMIGStrategy] = v1.MIGMixed
	}
	return labels
}

// inventorySlices converts slices to their form in the annotation.
func inventorySlices(slices []gpu.Slice) []inventory.Slice {
	var list []inventory.Slice // nil for none
	for i := range slices {
		list = append(list, inventory.Slice{
			UUID: slices[i].UUID, Profile: slices[i].Profile, MemoryMiB: int64(slices[i].MemoryBytes / bytesPerMiB), //nolint:gosec // no GPU has 2^63 bytes
		})
	}
	return list
}
