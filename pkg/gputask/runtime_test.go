// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestOnlyTimeSpentRunningCounts follows a task that runs, is preempted, waits and runs again.
func TestOnlyTimeSpentRunningCounts(t *testing.T) {
	t.Parallel()
	limit := int64(100)
	task := makeTask("train").with(func(t *v1.GPUTask) { t.Spec.MaxRuntimeSeconds = &limit })
	at := now
	step := func(after time.Duration, pods ...*corev1.Pod) Plan {
		t.Helper()
		at = at.Add(after)
		in := input(task, pods)
		in.Now = at
		plan, err := Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		task.Status = plan.Status
		return plan
	}
	running := task.pod(0, 0).running("a").Pod
	if got := step(0).Create[0].Annotations[v1.AnnotationMaxRuntime]; got != "100" {
		t.Errorf("the first Pod may run for %q s", got)
	}
	step(time.Hour, running)
	if task.Status.RunningSince == nil {
		t.Fatal("the run has no beginning")
	}
	if got := step(30 * time.Second).Create[0].Annotations[v1.AnnotationMaxRuntime]; got != "100" {
		t.Errorf("the Pod that is created before the status is written may run for %q s", got)
	}
	if got := step(time.Hour).Create[0].Annotations[v1.AnnotationMaxRuntime]; got != "70" {
		t.Errorf("the second Pod may run for %q s", got)
	}
	if plan := step(time.Hour, running); plan.RequeueAfter != 70*time.Second {
		t.Errorf("the task is looked at again after %v", plan.RequeueAfter)
	}
	step(70*time.Second, running)
	if target := findCondition(task.Status.Conditions, v1.ConditionFailureTarget); target == nil || target.Reason != v1.ReasonMaxRuntimeExceeded {
		t.Errorf("after 100 s it goes on: %+v", target)
	}
}
