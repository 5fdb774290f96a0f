// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package training

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// Devices returns the IDs of the GPUs, or of the slices or shares of them, that a container holds.
func Devices(pod *corev1.Pod, container string) (ids []string) {
	assignment, err := inventory.ParseAssignment(pod.Annotations[inventory.AssignmentAnnotation])
	if err != nil {
		return nil // it has none
	}
	for _, devices := range assignment.Containers[container] {
		ids = append(ids, devices...)
	}
	slices.Sort(ids)
	return ids
}
