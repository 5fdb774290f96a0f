// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestOnlyProgress(t *testing.T) {
	t.Parallel()
	base := func() taskBuilder {
		return makeTask("train").phase(v1.PhasePending).started(time.Minute).with(func(t *v1.GPUTask) { t.Status.Message = "all 3 Pods wait to start" })
	}
	unscheduled := func(reason string) taskBuilder {
		return base().condition(v1.ConditionScheduled, metav1.ConditionFalse, reason)
	}
	scheduled := func() taskBuilder {
		return base().condition(v1.ConditionScheduled, metav1.ConditionTrue, reasonScheduled)
	}
	running := func(reason string) taskBuilder {
		return base().phase(v1.PhaseRunning).condition(v1.ConditionRunning, metav1.ConditionTrue, reason)
	}
	worded := func(b taskBuilder, message string) taskBuilder {
		return b.with(func(t *v1.GPUTask) { t.Status.Conditions[0].Message = message })
	}
	tests := map[string]struct {
		before, after taskBuilder
		plan          Plan // beside the status
		want          bool
	}{
		"nothing":                           {before: base(), after: base(), want: true},
		"numbers, nodes and their words":    {before: base(), after: base().with(func(t *v1.GPUTask) { t.Status.Running, t.Status.Nodes, t.Status.Message = 1, []string{"a"}, "2 of 3" }), want: true},
		"completed indexes":                 {before: base(), after: base().with(func(t *v1.GPUTask) { t.Status.CompletedIndexes, t.Status.Succeeded = "0", 1 }), want: true},
		"a Pod to create":                   {before: base(), after: base(), plan: Plan{Create: []PlannedPod{{}}}},
		"a Pod to delete":                   {before: base(), after: base(), plan: Plan{Delete: []*corev1.Pod{nil}}},
		"a task to delete":                  {before: base(), after: base(), plan: Plan{DeleteTask: true}},
		"another phase":                     {before: base(), after: base().phase(v1.PhaseRunning)},
		"a failure":                         {before: base(), after: base().restarted(1, 0)},
		"a failure of one Pod":              {before: base(), after: base().with(func(t *v1.GPUTask) { t.Status.PodRestarts = []v1.PodRestarts{{Index: 1, Count: 1}} })},
		"the start of the deadline":         {before: makeTask("train"), after: makeTask("train").started(0)},
		"a seen change of the spec":         {before: base(), after: base().with(func(t *v1.GPUTask) { t.Status.ObservedGeneration = 2 })},
		"a new cause":                       {before: base(), after: base(), plan: Plan{cause: "Pod train-1: ImagePullBackOff"}},
		"a cause that was reported":         {before: base().with(func(t *v1.GPUTask) { t.Status.Message = "x; no image" }), after: base(), plan: Plan{cause: "no image"}, want: true},
		"no node fits":                      {before: base(), after: unscheduled(reasonUnschedulable)},
		"no node fits any more":             {before: scheduled(), after: unscheduled(reasonUnschedulable)},
		"no node fits, for another why":     {before: unscheduled(reasonUnschedulable), after: worded(unscheduled(reasonUnschedulable), "4 Insufficient cpu"), want: true},
		"no node fits, once resumed":        {before: unscheduled("Suspended"), after: unscheduled(reasonUnschedulable)},
		"all Pods have nodes":               {before: base(), after: scheduled(), want: true},
		"all Pods have nodes at last":       {before: unscheduled(reasonUnschedulable), after: scheduled(), want: true},
		"a condition that is gone":          {before: scheduled(), after: base()},
		"more Pods run than must":           {before: running(reasonEnoughRunning), after: running(reasonAllRunning), want: true},
		"the task runs":                     {before: base(), after: running(reasonAllRunning)},
		"a dependency that is another":      {before: base().condition(v1.ConditionDependenciesMet, metav1.ConditionFalse, "A"), after: worded(base().condition(v1.ConditionDependenciesMet, metav1.ConditionFalse, "A"), "b")},
		"a refusal in other words":          {before: base().condition(v1.ConditionPodsCreated, metav1.ConditionFalse, "A"), after: worded(base().condition(v1.ConditionPodsCreated, metav1.ConditionFalse, "A"), "b"), want: true},
		"a refusal for another cause":       {before: base().condition(v1.ConditionPodsCreated, metav1.ConditionFalse, "A"), after: base().condition(v1.ConditionPodsCreated, metav1.ConditionFalse, "B")},
		"a task that is going to fail":      {before: base(), after: base().condition(v1.ConditionFailureTarget, metav1.ConditionTrue, "x")},
		"fewer Pods that are still to stop": {before: base().condition(v1.ConditionFailureTarget, metav1.ConditionTrue, "x"), after: base().condition(v1.ConditionFailureTarget, metav1.ConditionTrue, "x").with(func(t *v1.GPUTask) { t.Status.Message = "waiting for 1 Pod to stop" }), want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.plan.Status = tc.after.Status
			if got := tc.plan.OnlyProgress(&tc.before.Status); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPodsThatAreAboutToBeCreatedArePending(t *testing.T) {
	t.Parallel()
	task := makeTask("train").replicas(3)
	in := input(task, pods(task.pod(0, 0)))
	plan, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Status.Pending != 3 {
		t.Errorf("%d Pods are pending, want 3, one of them there already", plan.Status.Pending)
	}
	in.Refusal = &Refusal{Reason: "QuotaExceeded", Message: "exceeded quota"}
	if plan, err = Decide(in); err != nil {
		t.Fatal(err)
	}
	if plan.Status.Pending != 1 {
		t.Errorf("%d Pods are pending while the API server refuses them, want 1", plan.Status.Pending)
	}
}

func TestASpareThatFailsLeavesTheGangRunning(t *testing.T) {
	t.Parallel()
	task := makeTask("train").replicas(3).minAvailable(2).policy(v1.RestartPod).
		phase(v1.PhaseRunning).started(time.Hour).condition(v1.ConditionRunning, metav1.ConditionTrue, reasonAllRunning)
	plan, err := Decide(input(task, pods(task.pod(0, 0).running("a"), task.pod(1, 0).failed(time.Second), task.pod(2, 0).running("b"))))
	if err != nil {
		t.Fatal(err)
	}
	running := meta.FindStatusCondition(plan.Status.Conditions, v1.ConditionRunning)
	if running.Status != metav1.ConditionTrue || running.Reason != reasonEnoughRunning {
		t.Errorf("the condition Running is %s for %s", running.Status, running.Reason)
	}
	if !running.LastTransitionTime.Equal(ago(time.Minute)) {
		t.Errorf("it changed at %v although the task has been running all the time", running.LastTransitionTime)
	}
}

// After an upgrade, all tasks lack it at the same time.
func TestTheSelectorAloneIsNoReasonToWriteTheStatus(t *testing.T) {
	t.Parallel()
	task := makeTask("train").started(time.Minute)
	running := pods(task.pod(0, 0).running("a"))
	first := decide(t, input(task, running))
	if want := "falldio.com/gputask=train"; first.Status.Selector != want {
		t.Errorf("selector %q, want %q", first.Status.Selector, want)
	}
	task.Status = first.Status
	task.Status.Selector = ""
	second := decide(t, input(task, running))
	if diff := cmp.Diff(task.Status, second.Status); diff != "" {
		t.Errorf("the status changes (-before +after):\n%s", diff)
	}
	if !first.OnlyProgress(&task.Status) {
		t.Error("a selector is written at once")
	}
}
