// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"os"
	"path/filepath"
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
	// mpsControl is the pipe of the control daemon.
	mpsControl = "control"
)

// mps is the directory of the MPS control daemon; empty if there is none.
type mps string

// runs reports whether the control daemon has created its pipe. A program that found no
// daemon would run without MPS, and without limits.
func (m mps) runs() bool {
	if m == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(string(m), mpsControl))
	return err == nil
}

// limits returns the limits of each process of a container that has this share of a GPU
// with this much memory. The container sees no other GPU, so its GPU is device 0. Memory
// of unknown size has no limit.
func (m mps) limits(percent int, memoryMiB int64) map[string]string {
	limits := map[string]string{
		mpsPipesVariable:   string(m),
		mpsThreadsVariable: strconv.Itoa(percent),
	}
	if memoryMiB > 0 {
		limits[mpsMemoryVariable] = "0=" + strconv.FormatInt(memoryMiB*int64(percent)/share.PerGPU, 10) + "M"
	}
	return limits
}

// mount mounts the directory into a container, at the same path as on the node. Its
// programs write to the daemon's pipe.
func (m mps) mount() *pluginapi.Mount {
	return &pluginapi.Mount{ContainerPath: string(m), HostPath: string(m)}
}
