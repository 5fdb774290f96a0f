// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// checkRuntime fails a task that has been running for longer than it may.
func (d *decision) checkRuntime() {
	limit := d.Task.Spec.MaxRuntimeSeconds
	if limit == nil || d.status.RunningSince == nil || d.isFailing() || d.hasSucceeded() {
		return
	}
	left := time.Duration(*limit)*time.Second - runtimeOf(d.status, d.Now)
	if left > 0 {
		d.requeueAfter(left)
		return
	}
	d.setFailureTarget(v1.ReasonMaxRuntimeExceeded,
		fmt.Sprintf("not finished after running for %d s (spec.maxRuntimeSeconds)", *limit))
}

// recordRuntime begins or ends a run, depending on the phase that was decided on.
func (d *decision) recordRuntime() {
	switch runs := d.status.Phase == v1.PhaseRunning; {
	case runs && d.status.RunningSince == nil:
		d.status.RunningSince = d.now()
		if limit := d.Task.Spec.MaxRuntimeSeconds; limit != nil {
			d.requeueAfter(time.Duration(*limit-d.status.PastRuntimeSeconds) * time.Second)
		}
	case !runs && d.status.RunningSince != nil:
		d.status.PastRuntimeSeconds = int64(runtimeOf(d.status, d.Now).Seconds())
		d.status.RunningSince = nil
	}
}

// runtimeOf returns for how long a task has been running, all its runs together.
func runtimeOf(status *v1.GPUTaskStatus, now time.Time) time.Duration {
	past := time.Duration(status.PastRuntimeSeconds) * time.Second
	if status.RunningSince == nil {
		return past
	}
	return past + max(now.Sub(status.RunningSince.Time), 0)
}

// runtimeLeft returns for how many seconds a Pod that is created now will run at most; 0 if there
// is no limit.
func runtimeLeft(task *v1.GPUTask) int64 {
	if task.Spec.MaxRuntimeSeconds == nil {
		return 0
	}
	return max(*task.Spec.MaxRuntimeSeconds-task.Status.PastRuntimeSeconds, 1)
}
