// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strconv"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// Replicas returns the number of Pods of a task, at least 1.
func Replicas(task *v1.GPUTask) int {
	if task.Spec.Replicas == nil || *task.Spec.Replicas < 1 {
		return 1
	}
	return int(*task.Spec.Replicas)
}

// PodName returns the name of the Pod of the member with the given index: the
// task's name for a task of one Pod, <task>-<index> in a gang.
func PodName(task *v1.GPUTask, index int) string {
	if Replicas(task) == 1 {
		return task.Name
	}
	return task.Name + "-" + strconv.Itoa(index)
}
