// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// mountEverywhere adds a volume to a Pod and mounts it in all containers that have nothing in its place, unless the
// template has a volume of that name.
func mountEverywhere(spec *corev1.PodSpec, mount corev1.VolumeMount, volume corev1.Volume) {
	if slices.ContainsFunc(spec.Volumes, func(other corev1.Volume) bool { return other.Name == volume.Name }) {
		return
	}
	spec.Volumes = append(spec.Volumes, volume)
	mount.Name = volume.Name
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} { // sidecars are among the former
		for i := range containers {
			if container := &containers[i]; !mounts(container, mount.MountPath) {
				container.VolumeMounts = append(container.VolumeMounts, mount)
			}
		}
	}
}

// mounts reports whether a container has something mounted at a path.
func mounts(container *corev1.Container, at string) bool {
	return slices.ContainsFunc(container.VolumeMounts, func(mount corev1.VolumeMount) bool { return path.Clean(mount.MountPath) == at })
}

// anyMounts reports whether a container of a Pod has something mounted at a path.
func anyMounts(spec *corev1.PodSpec, at string) bool {
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(container corev1.Container) bool { return mounts(&container, at) })
}

// sharedMemoryVolume is the volume that is mounted at sharedMemoryFolder.
const (
	sharedMemoryVolume = "gputask-shm"
	sharedMemoryFolder = "/dev/shm"
)

// applySharedMemory lets processes that work on several GPUs together share as much memory as the Pod may use: NCCL and
// data loaders put there what they exchange, and container runtimes allow 64 MiB. What the template mounts there stays.
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
