// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"strconv"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// The variables, in MiB, that the hook apply-cuda-memory-limits of NVIDIA's Container Toolkit
// reads. It passes them to nvmlDeviceSetMemoryLimits_v1 for the container's control group,
// before the container's program starts:
// https://github.com/NVIDIA/nvidia-container-toolkit/pull/2075
const (
	memoryRequestVariable = "NVIDIA_GPU_MEMORY_REQUEST"
	memoryLimitVariable   = "NVIDIA_GPU_MEMORY_LIMIT"
)

// limitMemory makes the hook limit a container to its share of the GPU's memory. Nothing is
// reserved for it: the driver adds reservations to the groups above, and does not take them
// away when the container's own is deleted. Memory of unknown size has no limit.
func limitMemory(response *pluginapi.ContainerAllocateResponse, percent int, gpu *Device) {
	limit := share.MemoryMiB(percent, gpu.MemoryMiB)
	if limit == 0 {
		return
	}
	response.Envs[memoryRequestVariable] = "0"
	response.Envs[memoryLimitVariable] = strconv.FormatInt(limit, 10)
}

// LimitsMemory reports whether an answer limits the memory of the container's control group.
func LimitsMemory(answer *pluginapi.ContainerAllocateResponse) bool {
	return answer.GetEnvs()[memoryLimitVariable] != ""
}
