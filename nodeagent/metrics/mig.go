// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// sliceLabels are those of a GPU, with the GPU's UUID, and what tells its MIG slices apart.
var sliceLabels = append(gpuLabels[:len(gpuLabels):len(gpuLabels)], "mig_uuid", "profile", "gpu_instance", "compute_instance")

// dcgmSliceLabels are those of dcgm-exporter for a MIG slice.
var dcgmSliceLabels = append(gpuLabels[:len(gpuLabels):len(gpuLabels)], "GPU_I_ID", "GPU_I_PROFILE")

// sliceDescriptions are the descriptors of the metrics of MIG slices. NVML measures nothing of
// them but their memory; it does not report their utilization.
type sliceDescriptions struct {
	memory, used, free *prometheus.Desc
	dcgmUsed, dcgmFree *prometheus.Desc
}

func newSliceDescriptions() *sliceDescriptions {
	return &sliceDescriptions{
		memory:   describe("falldio_gpu_mig_memory_bytes", "All memory of the MIG slice.", sliceLabels),
		used:     describe("falldio_gpu_mig_memory_used_bytes", "Memory of the MIG slice that is in use.", sliceLabels),
		free:     describe("falldio_gpu_mig_memory_free_bytes", "Memory of the MIG slice that is free.", sliceLabels),
		dcgmUsed: describe(dcgmMemoryUsed, "Memory that programs use. (as DCGM has it)", dcgmSliceLabels),
		dcgmFree: describe(dcgmMemoryFree, "Memory that is free. (as DCGM has it)", dcgmSliceLabels),
	}
}

// collect collects the metrics of the slices of one GPU.
func (d *sliceDescriptions) collect(into chan<- prometheus.Metric, node *Node, device *gpu.Device, dcgm bool) {
	for i := range device.Slices {
		slice := &device.Slices[i]
		common := labelValues(node.Name, device, node.holders(slice.UUID))
		instance := number(slice.GPUInstance)
		own := slices.Concat(common, []string{slice.UUID, slice.Profile, instance, number(slice.ComputeInstance)})
		theirs := slices.Concat(common, []string{instance, slice.Profile})
		gauge := func(desc *prometheus.Desc, value float64, labels []string) {
			into <- constant(desc, prometheus.GaugeValue, value, labels...)
		}
		gauge(d.memory, float64(slice.MemoryBytes), own)
		values := device.SliceValues[slice.UUID]
		for quantity, desc := range map[gpu.Quantity][2]*prometheus.Desc{gpu.MemoryUsed: {d.used, d.dcgmUsed}, gpu.MemoryFree: {d.free, d.dcgmFree}} {
			value, measured := values[quantity]
			if !measured {
				continue
			}
			gauge(desc[0], value, own)
			if dcgm {
				gauge(desc[1], value/bytesPerMebibyte, theirs)
			}
		}
	}
}

// ofSlices reports whether DCGM's metric of a quantity has the slices of a GPU instead of the GPU:
// a sum over both would count the memory twice.
func ofSlices(quantity gpu.Quantity, device *gpu.Device) bool {
	return len(device.SliceValues) > 0 && (quantity == gpu.MemoryUsed || quantity == gpu.MemoryFree)
}
