// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "falldio.github.io/gpu-controller/nodeagent/hardware/gpu"

// slices adds the metrics of the MIG slices of one GPU. NVML measures nothing of them but their memory; it does not
// report their utilization.
func (s *sink) slices(node *Node, device *gpu.Device, dcgm bool) {
	for i := range device.Slices {
		slice := &device.Slices[i]
		common := gpuLabels(node.Name, device, node.holders(slice.UUID)) // with the GPU's UUID
		instance := number(slice.GPUInstance)
		own := common.with("mig_uuid", slice.UUID).with("profile", slice.Profile).
			with("gpu_instance", instance).with("compute_instance", number(slice.ComputeInstance))
		theirs := common.with("GPU_I_ID", instance).with("GPU_I_PROFILE", slice.Profile) // as dcgm-exporter has them
		s.gauge("falldio_gpu_mig_memory_bytes", "All memory of the MIG slice.", float64(slice.MemoryBytes), own)
		values := device.SliceValues[slice.UUID]
		for _, row := range sliceTable {
			value, measured := values[row.quantity]
			if !measured {
				continue
			}
			s.gauge(row.name, row.help, value, own)
			if dcgm {
				s.gauge(row.dcgm, row.dcgmHelp, value/bytesPerMebibyte, theirs)
			}
		}
	}
}

// sliceTable has the quantities of MIG slices.
var sliceTable = []struct {
	quantity                   gpu.Quantity
	name, help, dcgm, dcgmHelp string
}{
	{gpu.MemoryUsed, "falldio_gpu_mig_memory_used_bytes", "Memory of the MIG slice that is in use.", dcgmMemoryUsed, "Memory that programs use." + asDCGM},
	{gpu.MemoryFree, "falldio_gpu_mig_memory_free_bytes", "Memory of the MIG slice that is free.", dcgmMemoryFree, "Memory that is free." + asDCGM},
}

// ofSlices reports whether DCGM's metric of a quantity has the slices of a GPU instead of the GPU:
// a sum over both would count the memory twice.
func ofSlices(quantity gpu.Quantity, device *gpu.Device) bool {
	return len(device.SliceValues) > 0 && (quantity == gpu.MemoryUsed || quantity == gpu.MemoryFree)
}
