// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podlogs reads the logs of a task's Pods, and follows them through broken
// connections, restarts and replacements without losing or repeating lines.
package podlogs

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// instance identifies one start of a container: the kubelet may restart it in its Pod, and a
// Pod may be replaced by another of its name.
type instance struct {
	pod      types.UID
	restarts int32
}

// state is how far an instance is.
type state struct {
	instance
	// started reports whether there may be a log; ended whether it is complete.
	started, ended bool
}

// ContainerOf returns the container to read: the given one, or the one that has the GPUs.
func ContainerOf(pod *corev1.Pod, given string) string {
	if given != "" {
		return given
	}
	if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == v1.ContainerName }) {
		return v1.ContainerName
	}
	return pod.Spec.Containers[0].Name
}

// Started reports whether a container has begun, so that it may have a log.
func Started(pod *corev1.Pod, container string) bool { return stateOf(pod, container).started }

// Ended reports whether a Pod writes nothing more.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func stateOf(pod *corev1.Pod, container string) state {
	found := state{instance: instance{pod: pod.UID}, ended: Ended(pod)}
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if status.Name != container {
			continue
		}
		found.restarts = status.RestartCount
		now, last := &status.State, &status.LastTerminationState
		found.started = now.Running != nil || now.Terminated != nil || last.Terminated != nil
		// The kubelet counts a restart when the next instance begins.
		found.ended = found.ended || now.Terminated != nil || now.Waiting != nil && last.Terminated != nil
		return found
	}
	found.started = found.ended || pod.Status.Phase == corev1.PodRunning
	return found
}
