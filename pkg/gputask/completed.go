// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"

// HasSucceeded reports whether the member whose Pod has that name has succeeded: it gets no
// other Pod.
func HasSucceeded(task *v1.GPUTask, pod string) bool {
	completed, err := parseIndexes(task.Status.CompletedIndexes)
	if err != nil {
		return false
	}
	for index := range completed {
		if PodName(task, index) == pod {
			return true
		}
	}
	return false
}
