// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// unknownEnds are what the statuses of containers say of which nobody knows how they ended: their node was rebooted, or
// has lost them.
var unknownEnds = []string{"ContainerStatusUnknown", "Unknown"}

// hasFailedByItself reports whether the program of a Pod has failed. One that was preempted, evicted, refused by its
// node, or lost with it, has not. The processes under test have their own rule for that, which is not asked here.
func hasFailedByItself(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed || wasDisrupted(pod) {
		return false
	}
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		ended := status.State.Terminated
		return ended != nil && ended.ExitCode != 0 && !slices.Contains(unknownEnds, ended.Reason)
	})
}

// hasEndedByItself reports whether the program of a Pod has ended, well or not.
func hasEndedByItself(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded && !wasDisrupted(pod) || hasFailedByItself(pod)
}
