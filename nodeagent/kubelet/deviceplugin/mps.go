// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"strconv"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
)

// The environment variables that the CUDA driver reads in a client of NVIDIA's
// Multi-Process Service:
// https://docs.nvidia.com/deploy/mps/latest/appendix-environment-variables.html
const (
	mpsPipesVariable   = "CUDA_MPS_PIPE_DIRECTORY"
	mpsThreadsVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	mpsMemoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
)

// clientShm is where the CUDA driver looks for the memory that an MPS client shares with its
// server.
const clientShm = "/dev/shm"

// MPS makes containers clients of the control daemon of NVIDIA's Multi-Process Service.
type MPS struct {
	// PipeDirectory is the directory in which the daemon has its socket, on the node and in
	// the containers.
	PipeDirectory string
	// ShmDirectory is the directory of the node that is the daemon's /dev/shm; empty to
	// leave the containers' own in place.
	ShmDirectory string
	// Runs reports whether the daemon runs. The kubelet waits for the answer.
	Runs func() bool
}

// admit makes a container with this share of a GPU a client, if the daemon runs. A program
// that found no daemon would run without MPS, and without limits.
func (m *MPS) admit(response *pluginapi.ContainerAllocateResponse, percent int, gpu *Device) {
	if m == nil || !m.Runs() {
		return
	}
	response.Envs[mpsPipesVariable] = m.PipeDirectory
	response.Envs[mpsThreadsVariable] = strconv.Itoa(percent)
	if gpu.MemoryMiB > 0 { // memory of unknown size has no limit
		response.Envs[mpsMemoryVariable] = memoryLimit(percent, gpu.MemoryMiB)
	}
	response.Mounts = append(response.Mounts, m.mounts()...)
}

// memoryLimit limits the memory of each process of a container. The container sees no other
// GPU, so its GPU is device 0. The variable may name the GPU by its UUID as well, but drivers
// have ignored limits that did: https://github.com/NVIDIA/k8s-device-plugin/pull/572
func memoryLimit(percent int, memoryMiB int64) string {
	return "0=" + strconv.FormatInt(share.MemoryMiB(percent, memoryMiB), 10) + "M"
}

// mounts returns what a client needs besides the variables, as NVIDIA's device plugin mounts
// it. Clients write to the daemon's socket and to the shared memory.
func (m *MPS) mounts() []*pluginapi.Mount {
	mounts := []*pluginapi.Mount{{ContainerPath: m.PipeDirectory, HostPath: m.PipeDirectory}}
	if m.ShmDirectory != "" {
		mounts = append(mounts, &pluginapi.Mount{ContainerPath: clientShm, HostPath: m.ShmDirectory})
	}
	return mounts
}

// IsMPSClient reports whether the answer for a container made it a client of the daemon.
func IsMPSClient(answer *pluginapi.ContainerAllocateResponse) bool {
	return answer.GetEnvs()[mpsPipesVariable] != ""
}
