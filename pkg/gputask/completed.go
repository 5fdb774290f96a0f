// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// HasSucceeded reports whether the member whose Pod has that name has succeeded: it gets no
// other Pod.
func HasSucceeded(task *v1.GPUTask, pod string) bool {
	index, found := memberIndex(task, Roles(task), pod)
	return found && containsIndex(task.Status.CompletedIndexes, index)
}

// HasUncountedSuccess reports whether a Pod has succeeded in the current attempt of its member, and
// the task's status does not tell of it.
func HasUncountedSuccess(task *v1.GPUTask, pod *corev1.Pod) bool {
	if IsFinished(task) || outcomeOf(pod) != podSucceeded {
		return false
	}
	index, found := memberIndex(task, Roles(task), pod.Name)
	return found && podAttempt(pod) == currentStart(task, &task.Status, index).attempt && !containsIndex(task.Status.CompletedIndexes, index)
}
