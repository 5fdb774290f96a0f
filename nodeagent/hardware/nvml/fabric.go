// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func fabricReaders() []reader {
	return []reader{
		{call: "nvmlDeviceGetGpuFabricInfo_v4", quantities: []gpu.Quantity{gpu.FabricReady},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				info, ret := d.handle.GetGpuFabricInfo_v4()
				return setFabric(sample, info.State, info.Status, ret)
			}},
		// Libraries that lack the former.
		{call: "nvmlDeviceGetGpuFabricInfoV", quantities: []gpu.Quantity{gpu.FabricReady},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				info, ret := d.handle.GetGpuFabricInfoV().V2()
				return setFabric(sample, info.State, info.Status, ret)
			}},
		// Libraries that lack both. NVIDIA has announced that it will fail with ERROR_DEPRECATED.
		{call: "nvmlDeviceGetGpuFabricInfo", quantities: []gpu.Quantity{gpu.FabricReady},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				info, ret := d.handle.GetGpuFabricInfo()
				return setFabric(sample, info.State, info.Status, ret)
			}},
	}
}

// setFabric adds a GPU's state in the fabric to the sample, unless it has none. The status is
// that of joining it, and has a meaning only when that has ended.
func setFabric(sample *gpu.Sample, state uint8, status uint32, ret nvml.Return) nvml.Return {
	if ret != nvml.SUCCESS {
		return ret
	}
	switch state {
	case nvml.GPU_FABRIC_STATE_NOT_STARTED, nvml.GPU_FABRIC_STATE_IN_PROGRESS:
		sample.Fabric = gpu.FabricNotReady
	case nvml.GPU_FABRIC_STATE_COMPLETED:
		sample.Fabric = gpu.FabricJoined
		if nvml.Return(status) != nvml.SUCCESS { //nolint:gosec // the same enum of C, with a sign
			sample.Fabric = gpu.FabricFailed
		}
	default: // there is no fabric
		return ret
	}
	sample.Values[gpu.FabricReady] = 0
	if sample.Fabric == gpu.FabricJoined {
		sample.Values[gpu.FabricReady] = 1
	}
	return ret
}
