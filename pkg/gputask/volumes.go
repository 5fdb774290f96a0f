// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// mountEverywhere adds a volume to a Pod and mounts it in all containers that have nothing in its place, unless the template has
// a volume of that name.
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
