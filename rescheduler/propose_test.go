// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

func TestAPlanIsProposedOnce(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t, func(with *settings) { with.Planner.ApproveCost = 0 })
	f.clock.Step(time.Hour) // longer than any patience
	f.fake.PrependReactor("create", "moveplans", func(action clienttesting.Action) (bool, runtime.Object, error) {
		plan := action.(clienttesting.CreateAction).GetObject().(*v1.MovePlan) //nolint:forcetypeassert // it is one
		plan.Name, plan.UID, plan.ResourceVersion = plan.GenerateName+"x", "uid-of-plan", "7"
		return true, plan, f.fake.Tracker().Add(plan)
	})
	for range 2 {
		if err := f.propose(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"create moveplans"}, f.writes()); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	f.observe()
	plans, err := f.ownPlans()
	if err != nil || len(plans) != 1 {
		t.Fatalf("plans %v, error %v", plans, err)
	}
	f.plan = plans[0]
	f.pass()
	if got := f.current(); got.Status.Phase != v1.PlanProposed || got.Spec.For == nil || got.Spec.For.Name != "big" || got.Spec.Moves[0].From.Node == got.Spec.Moves[0].To.Node {
		t.Errorf("plan %+v", got)
	}
	// The task that it is for starts elsewhere: nobody needs to approve it.
	f.bind("big", "n1")
	if err := f.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), "default", "moves"); err != nil {
		t.Fatal(err)
	}
	f.observe()
	if err := f.propose(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.current().Status; got.Phase != v1.PlanAborted || got.Reason != moveplan.ReasonStale {
		t.Errorf("status %+v", got)
	}
}

func TestOldPlansAreForgotten(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.plan.Status = v1.MovePlanStatus{Phase: v1.PlanDone, CompletionTime: &metav1.Time{Time: testTime}}
	f.create()
	for _, test := range []struct {
		after time.Duration
		want  []string
	}{{23 * time.Hour, nil}, {2 * time.Hour, []string{"delete moveplans"}}} {
		f.clock.Step(test.after)
		if err := f.deleteOldPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, f.writes()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	}
}
