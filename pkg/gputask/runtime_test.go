// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

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
	if got := step(0).Samples[0].Annotations[v1.AnnotationMaxRuntime]; got != "100" {
		t.Errorf("the first Pod may run for %q s", got)
	}
	step(time.Hour, running)
	if task.Status.RunningSince == nil {
		t.Fatal("the run has no beginning")
	}
	if got := step(30 * time.Second).Samples[0].Annotations[v1.AnnotationMaxRuntime]; got != "100" {
		t.Errorf("the Pod that is created before the status is written may run for %q s", got)
	}
	if got := step(time.Hour).Samples[0].Annotations[v1.AnnotationMaxRuntime]; got != "70" {
		t.Errorf("the second Pod may run for %q s", got)
	}
	if plan := step(time.Hour, running); plan.RequeueAfter != 70*time.Second {
		t.Errorf("the task is looked at again after %v", plan.RequeueAfter)
	}
	step(70*time.Second, running)
	if target := meta.FindStatusCondition(task.Status.Conditions, v1.ConditionFailureTarget); target == nil || target.Reason != v1.ReasonMaxRuntimeExceeded {
		t.Errorf("after 100 s it goes on: %+v", target)
	}
}

// TestPodsDeclareTheRunTimeThatTheTaskSaysNow: what the scheduler plans with follows a change of the task.
func TestPodsDeclareTheRunTimeThatTheTaskSaysNow(t *testing.T) {
	t.Parallel()
	task := func(past int64, declared ...int64) taskBuilder {
		return makeTask("train").phase(v1.PhaseRunning).with(func(t *v1.GPUTask) {
			t.Status.PastRuntimeSeconds = past
			for _, seconds := range declared {
				t.Spec.MaxRuntimeSeconds = &seconds
			}
		})
	}
	const declares, had = v1.AnnotationMaxRuntime, v1.AnnotationPastRuntime
	without := task(0, 100).pod(0, 0)
	without.Annotations[declares] = noMaxRuntime
	for name, test := range map[string]struct {
		task taskBuilder
		pod  podBuilder
		want map[string]string // nil: nothing changes
	}{
		"nothing has changed":              {task(0, 100), task(0, 100).pod(0, 0), nil},
		"a Pod of a later run":             {task(30, 100), task(30, 100).pod(0, 0), nil},
		"a Pod that has outlived a run":    {task(30, 100), task(0, 100).pod(0, 0), nil},
		"more":                             {task(0, 200), task(0, 100).pod(0, 0), map[string]string{declares: "200"}},
		"less":                             {task(0, 50), task(0, 100).pod(0, 0).running("a"), map[string]string{declares: "50"}},
		"more, in a later run":             {task(30, 200), task(30, 100).pod(0, 0), map[string]string{declares: "170", had: "30"}},
		"less than it has been running":    {task(30, 20), task(30, 100).pod(0, 0), map[string]string{declares: "1", had: "30"}},
		"something instead of nothing":     {task(30, 100), task(0).pod(0, 0), map[string]string{declares: "70", had: "30"}},
		"nothing instead of something":     {task(0), task(0, 100).pod(0, 0), map[string]string{declares: "0"}},
		"nothing, as before":               {task(0), without, nil},
		"something again":                  {task(0, 100), without, map[string]string{declares: "100"}},
		"a Pod that stops is left alone":   {task(0, 200), task(0, 100).pod(0, 0).running("a").deletedAgo(0), nil},
		"a Pod that has ended is as it is": {task(0, 200), task(0, 100).pod(0, 0).succeeded(), nil},
	} {
		plan, err := Decide(input(test.task, pods(test.pod)))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		for _, change := range plan.Declare {
			got = change.Annotations
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTheQueueLimitsTheRun follows a task while its queue changes.
func TestTheQueueLimitsTheRun(t *testing.T) {
	t.Parallel()
	limit := func(seconds int64, queue string) *v1.QueueRuntime {
		return &v1.QueueRuntime{MaxSeconds: seconds, Queue: queue}
	}
	const running = "" // otherwise the message of the condition FailureTarget
	type step struct {
		after time.Duration
		// queue is what the queue says then, nil if it is not known.
		queue *v1.QueueRuntime
		lost  bool // the Pod is gone: the run ends
		want  string
		// again is after how long the task is looked at again, if that matters.
		again time.Duration
	}
	tests := map[string]struct {
		declared int64
		steps    []step
	}{
		"a task that declares nothing is stopped when its queue says so": {0, []step{
			{0, limit(100, "vision"), false, running, 100 * time.Second},
			{99 * time.Second, limit(100, "vision"), false, running, time.Second},
			{time.Second, limit(100, "vision"), false, "not finished after running for 100 s (maxRuntimeSeconds of GPUQueue vision)", 0},
		}},
		"without a limit it runs on": {0, []step{
			{0, limit(0, ""), false, running, 0}, {1000 * time.Hour, limit(0, ""), false, running, 0},
		}},
		"what a task declares holds if it is less": {50, []step{
			{0, limit(100, "vision"), false, running, 50 * time.Second},
			{50 * time.Second, limit(100, "vision"), false, "not finished after running for 50 s (spec.maxRuntimeSeconds)", 0},
		}},
		"who declares more while the task runs gains nothing": {500, []step{
			{0, limit(100, "vision"), false, running, 100 * time.Second},
			{100 * time.Second, limit(100, "vision"), false, "not finished after running for 100 s (maxRuntimeSeconds of GPUQueue vision)", 0},
		}},
		"a lower limit is not for what runs already": {0, []step{
			{0, limit(100, "vision"), false, running, 0}, {60 * time.Second, limit(50, "vision"), false, running, 40 * time.Second},
			{40 * time.Second, limit(50, "vision"), false, "not finished after running for 100 s (maxRuntimeSeconds of GPUQueue vision)", 0},
		}},
		"nor is the first one": {0, []step{
			{0, limit(0, ""), false, running, 0}, {60 * time.Second, limit(50, "vision"), false, running, 0},
		}},
		"but for its next run": {0, []step{
			{0, limit(100, "vision"), false, running, 0}, {10 * time.Second, limit(50, "vision"), true, running, 0},
			{time.Hour, limit(50, "vision"), false, running, 40 * time.Second},
			{40 * time.Second, limit(50, "vision"), false, "not finished after running for 50 s (maxRuntimeSeconds of GPUQueue vision)", 0},
		}},
		"a higher limit counts at once": {0, []step{
			{0, limit(100, "vision"), false, running, 0}, {100 * time.Second, limit(200, "research"), false, running, 100 * time.Second},
			{100 * time.Second, limit(50, "research"), false, "not finished after running for 200 s (maxRuntimeSeconds of GPUQueue research)", 0},
		}},
		"and so does none": {0, []step{
			{0, limit(100, "vision"), false, running, 0}, {100 * time.Second, limit(0, ""), false, running, 0},
			{time.Hour, limit(100, "vision"), false, running, 0},
		}},
		"while the queues are not known, what was known holds": {0, []step{
			{0, limit(100, "vision"), false, running, 0}, {50 * time.Second, nil, false, running, 50 * time.Second},
			{50 * time.Second, nil, false, "not finished after running for 100 s (maxRuntimeSeconds of GPUQueue vision)", 0},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := makeTask("train").with(func(t *v1.GPUTask) {
				if test.declared > 0 {
					t.Spec.MaxRuntimeSeconds = &test.declared
				}
			})
			at := now
			for i, one := range test.steps {
				at = at.Add(one.after)
				var pods []*corev1.Pod
				if !one.lost {
					pods = append(pods, task.pod(0, 0).running("a").Pod)
				}
				in := input(task, pods)
				in.Now, in.QueueRuntime = at, one.queue
				plan, err := Decide(in)
				if err != nil {
					t.Fatal(err)
				}
				task.Status = plan.Status
				got := ""
				if target := meta.FindStatusCondition(task.Status.Conditions, v1.ConditionFailureTarget); target != nil {
					got = target.Reason + ": " + target.Message
				}
				want := one.want
				if want != running {
					want = v1.ReasonMaxRuntimeExceeded + ": " + want
				}
				if got != want || one.again > 0 && plan.RequeueAfter != one.again {
					t.Fatalf("step %d: %q, again after %v; want %q, again after %v", i, got, plan.RequeueAfter, want, one.again)
				}
			}
		})
	}
}
