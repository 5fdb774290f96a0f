// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

func TestAMisplacedTaskIsEvictedIfThereIsRoom(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	task := f.addTask("train", "1", "old")
	f.observe()
	f.must(f.nodeCache.Add(gpuNode("old", "a100", "8"))) // it had another model when the task began
	if err := f.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.evictions(); got != 0 {
		t.Fatalf("%d evictions without room elsewhere", got)
	}
	f.must(f.nodeCache.Add(gpuNode("new", "h100", "8")))
	failNext(&f.kube.Fake, "create", "pods", apierrors.NewTooManyRequests("a PodDisruptionBudget", 10))
	if err := f.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(f.events.Events); got != 0 {
		t.Fatalf("%d events although a PodDisruptionBudget forbade the move", got)
	}
	// The task finishes meanwhile, so that it needs no new place.
	task = task.DeepCopy()
	task.Status.Phase = v1.PhaseSucceeded
	f.kube.PrependReactor("create", "pods", f.whenEvicted(task))
	if err := f.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`Normal Rescheduled moves to another node: node old has the GPU model "a100" now, not "h100"`, <-f.events.Events); diff != "" {
		t.Errorf("event (-want +got):\n%s", diff)
	}
}

// TestRepairsCountInTheBudget: a label that changes on all nodes must not stop everything at once.
func TestRepairsCountInTheBudget(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.options.Planner.MovesPerHour = 1
	f.addTask("one", "1", "old")
	f.addTask("two", "1", "old")
	f.observe()
	f.must(f.nodeCache.Add(gpuNode("old", "a100", "8")))
	f.must(f.nodeCache.Add(gpuNode("new", "h100", "8")))
	endsWhenEvicted := func(name string) { // so that repair need not wait for its new place
		task, err := f.fake.FalldioV1().GPUTasks("default").Get(t.Context(), name, metav1.GetOptions{})
		f.must(err)
		task.Status.Phase = v1.PhaseSucceeded
		f.kube.PrependReactor("create", "pods", f.whenEvicted(task))
	}
	endsWhenEvicted("one")
	for range 2 {
		f.must(f.repair(t.Context()))
		if got := f.evictions(); got != 1 {
			t.Fatalf("%d evictions, want 1", got)
		}
	}
	f.clock.Step(reschedule.LedgerPeriod)
	endsWhenEvicted("two")
	f.must(f.repair(t.Context()))
	if got := f.evictions(); got != 2 {
		t.Errorf("%d evictions after an hour, want 2", got)
	}
}

func TestRepairsMakeWayForPlans(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		phase    v1.MovePlanPhase
		approved bool
		repairs  bool
	}{
		"one that is carried out":   {v1.PlanExecuting, true, false},
		"one that was approved":     {v1.PlanProposed, true, false},
		"not one that waits":        {v1.PlanProposed, false, true},
		"not one that has ended":    {v1.PlanDone, true, true},
		"not one that was rejected": {v1.PlanAborted, false, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlanFixture(t)
			f.plan.Status.Phase, f.plan.Spec.Approved = test.phase, test.approved
			f.create()
			f.must(f.nodeCache.Update(gpuNode("n1", "another-model", "8")))
			// The task ends in the meantime, so that repair need not wait for its new place.
			ended, err := f.fake.FalldioV1().GPUTasks("default").Get(t.Context(), "moves", metav1.GetOptions{})
			f.must(err)
			ended.Status.Phase = v1.PhaseSucceeded
			f.kube.PrependReactor("create", "pods", f.whenEvicted(ended))
			if err := f.repair(t.Context()); err != nil {
				t.Fatal(err)
			}
			if evictions := f.evictions(); (evictions > 0) != test.repairs {
				t.Errorf("%d evictions", evictions)
			}
		})
	}
}

// A repair waits for minutes until its task runs again; an approved plan must not.
func TestARepairDoesNotKeepAnApprovedPlanWaiting(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.plan.Spec.Approved = false
	f.create()
	f.must(f.nodeCache.Update(gpuNode("n1", "another-model", "8")))
	approved := f.current()
	approved.Spec.Approved = true
	f.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		return true, nil, f.planCache.Update(approved) // and the task does not run again
	})
	begin := time.Now()
	if err := f.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.evictions() != 1 || time.Since(begin) > settleLimit/2 {
		t.Errorf("%d evictions in %v", f.evictions(), time.Since(begin))
	}
}
