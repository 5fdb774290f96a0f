// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podlogs reads the logs of a task's Pods, and follows them through broken
// connections, restarts and replacements without losing or repeating lines.
package podlogs

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/podfacts"
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

// ContainerOf returns the container to read: the given one, or the one that does the work.
func ContainerOf(pod *corev1.Pod, given string) string {
	if given != "" {
		return given
	}
	return podfacts.WorkContainer(pod)
}

// Started reports whether a container has begun, so that it may have a log.
func Started(pod *corev1.Pod, container string) bool { return stateOf(pod, container).started }

func stateOf(pod *corev1.Pod, container string) state {
	found := state{instance: instance{pod: pod.UID}, ended: podfacts.Ended(pod)}
	status := podfacts.StatusOf(pod, container)
	if status == nil {
		found.started = found.ended || pod.Status.Phase == corev1.PodRunning
		return found
	}
	found.restarts = status.RestartCount
	found.started = podfacts.HasStarted(status)
	// The kubelet counts a restart when the next instance begins.
	now, last := &status.State, &status.LastTerminationState
	found.ended = found.ended || now.Terminated != nil || now.Waiting != nil && last.Terminated != nil
	return found
}
