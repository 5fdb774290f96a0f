// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"

// RunsForTheFirstTime reports whether a change of status is the first time
// that a task runs.
func RunsForTheFirstTime(before, after *v1.GPUTaskStatus) bool {
	return conditionIsTrue(after.Conditions, v1.ConditionRunning) &&
		findCondition(before.Conditions, v1.ConditionRunning) == nil
}
