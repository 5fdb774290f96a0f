// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// sharedMemoryVolume is the volume that is mounted at sharedMemoryFolder.
const (
	sharedMemoryVolume = "gputask-shm"
	sharedMemoryFolder = "/dev/shm"
)

// applySharedMemory lets processes that work on several GPUs together share as much memory as the Pod may use: NCCL and data
// loaders put there what they exchange, and container runtimes allow 64 MiB. What the template mounts there stays.
func applySharedMemory(spec *corev1.PodSpec, task *v1.GPUTask, role *Role) {
	switch {
	case !IsGang(task) && processesPerPod(role) == 1, anyMounts(spec, sharedMemoryFolder):
		return
	case spec.HostIPC: // it is the node's
		return
	case strings.HasPrefix(role.GPUAmount, "0."): // NVIDIA's MPS, which limits shares, may need what the node agent mounts there
		return
	}
	mountEverywhere(spec, corev1.VolumeMount{MountPath: sharedMemoryFolder}, corev1.Volume{Name: sharedMemoryVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory},
	}})
}
