// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

func TestTheLedgerCountsTheMovesOfOneHour(t *testing.T) {
	t.Parallel()
	running := spent(2, time.Minute, 100)
	running.Status.Phase, running.Status.CompletionTime = v1.PlanExecuting, nil
	running.Status.Moves[1].EvictedAt = nil
	running.Spec.Moves[0].Task.Namespace = "other"
	l := NewLedger([]*v1.MovePlan{spent(2, 59*time.Minute, 7), spent(3, time.Hour, 1000), running}, now)
	if l.Moves != 3 || l.LostGPUSeconds["default"] != 14 || l.LostGPUSeconds["other"] != 100 {
		t.Errorf("got %+v", l)
	}
	o := &Options{MovesPerHour: 5, GPUMinutesPerHour: 1}
	if left, limited := l.MovesLeft(o); left != 2 || !limited {
		t.Errorf("moves left %d, limited %v", left, limited)
	}
	for namespace, want := range map[string]int64{"default": 46, "other": 0, "new": 60} {
		if left, limited := l.GPUSecondsLeft(o, namespace); left != want || !limited {
			t.Errorf("%s: left %d, limited %v", namespace, left, limited)
		}
	}
	if _, limited := l.MovesLeft(&Options{}); limited {
		t.Error("0 limits the moves")
	}
	if _, limited := l.GPUSecondsLeft(&Options{}, "default"); limited {
		t.Error("0 limits the work")
	}
}

func TestNotBefore(t *testing.T) {
	t.Parallel()
	ref := &v1.TaskReference{Namespace: "default", Name: "x", UID: "1"}
	end := func(phase v1.MovePlanPhase, ago time.Duration, change ...func(*v1.MovePlan)) *v1.MovePlan {
		plan := &v1.MovePlan{Spec: v1.MovePlanSpec{Goal: v1.GoalPendingTask, For: ref}}
		plan.Status.Phase = phase
		plan.Status.CompletionTime = new(metav1.NewTime(now.Add(-ago)))
		for _, apply := range change {
			apply(plan)
		}
		return plan
	}
	ofAnother := func(p *v1.MovePlan) { p.Spec.For = &v1.TaskReference{Namespace: "default", Name: "x", UID: "2"} }
	var many []*v1.MovePlan
	for i := range 20 {
		many = append(many, end(v1.PlanAborted, time.Duration(i)*time.Minute))
	}
	tests := map[string]struct {
		plans []*v1.MovePlan
		want  time.Duration // after now
	}{
		"nothing has happened":               {nil, -1},
		"a plan that was done needs no wait": {[]*v1.MovePlan{end(v1.PlanDone, 0)}, -1},
		"after one that was aborted":         {[]*v1.MovePlan{end(v1.PlanAborted, time.Second)}, 59 * time.Second},
		"twice in a row waits twice as long": {[]*v1.MovePlan{end(v1.PlanAborted, 0), end(v1.PlanAborted, time.Hour)}, 2 * time.Minute},
		"one that was done in between ends the row": {
			[]*v1.MovePlan{end(v1.PlanAborted, 2*time.Hour), end(v1.PlanAborted, 0), end(v1.PlanDone, time.Hour)}, time.Minute,
		},
		"it does not double forever": {many, MaxBackoff},
		"another task's plan":        {[]*v1.MovePlan{end(v1.PlanAborted, 0, ofAnother)}, -1},
		"a stale plan is not a failure": {
			[]*v1.MovePlan{end(v1.PlanAborted, 0, func(p *v1.MovePlan) { p.Status.Reason = moveplan.ReasonStale })}, -1,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := NewLedger(tc.plans, now).NotBefore(&Options{Backoff: time.Minute}, v1.GoalPendingTask, ref)
			want := now.Add(tc.want)
			if tc.want < 0 {
				want = time.Time{}
			}
			if !got.Equal(want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
