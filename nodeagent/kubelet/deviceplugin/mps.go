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

// What the CUDA driver reads in a program that is a client of NVIDIA's
// Multi-Process Service:
// https://docs.nvidia.com/deploy/mps/latest/appendix-environment-variables.html
const (
	mpsPipesVariable   = "CUDA_MPS_PIPE_DIRECTORY"
	mpsThreadsVariable = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	mpsMemoryVariable  = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
	// mpsControl is the pipe of the control daemon.
	mpsControl = "control"
)

// mps is the folder of the MPS control daemon; empty if there is none.
type mps string

// runs reports whether the control daemon has made its pipe. A program would run
// without MPS if it found no daemon, and without limits.
func (m mps) runs() bool {
	if m == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(string(m), mpsControl))
	return err == nil
}

// limits are those of each process of a container that has so many percent of a
// GPU with that much memory. The container sees no other GPU, so its GPU is
// device 0. Memory that nobody knows has no limit.
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

// mount shows a container the folder, at the path that it has on the node. Its
// programs write into the daemon's pipe.
func (m mps) mount() *pluginapi.Mount {
	return &pluginapi.Mount{ContainerPath: string(m), HostPath: string(m)}
}
