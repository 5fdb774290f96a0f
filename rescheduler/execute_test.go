// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

func TestAPlanIsCarriedOut(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.create()
	status, nodes := "update moveplans/status", "patch nodes"
	for i, want := range [][]string{
		{status},                   // Approved
		{status},                   // Executing
		{nodes, nodes},             // the places are kept
		{status},                   // the intent
		{"create pods/eviction"},   // the eviction
		{"update gputasks/status"}, // it is counted
		nil,                        // waits for the Pod
	} {
		if diff := cmp.Diff(want, f.pass()); diff != "" {
			t.Fatalf("pass %d: writes (-want +got):\n%s\nplan %+v", i, diff, f.current().Status)
		}
	}
	for node, want := range map[string]string{"n0": `"pod":"default/moves","kind":"Move"`, "n1": `"pod":"default/big","kind":"Start"`} {
		if kept := f.reserved(node); !strings.Contains(kept, want) {
			t.Errorf("node %s keeps %s, want %s", node, kept, want)
		}
	}
	f.checkSteered(t)
	f.bind("moves", "n0")
	if diff := cmp.Diff([]string{status}, f.pass()); diff != "" {
		t.Fatalf("writes on arrival (-want +got):\n%s", diff)
	}
	f.bind("big", "n1")
	f.pass()
	f.pass()
	if left := f.reserved("n0", "n1"); left != "" {
		t.Errorf("still kept: %s", left)
	}
	got := f.current().Status
	if got.Phase != v1.PlanDone || got.Reason != moveplan.ReasonStarted || got.Gain == nil || got.Gain.GPUs != 4 {
		t.Errorf("status %+v", got)
	}
	task, err := f.fake.FalldioV1().GPUTasks("default").Get(t.Context(), "moves", metav1.GetOptions{})
	f.must(err)
	if task.Status.Moves != 1 || task.Status.LastMove == nil || task.Status.LastMove.Plan != "make-room" {
		t.Errorf("the task's status %+v", task.Status)
	}
	f.checkReported(t)
}

// checkSteered replaces the evicted Pod, and checks that the replacement prefers its
// destination.
func (f *fixture) checkSteered(t *testing.T) {
	t.Helper()
	pod := f.replace("moves")
	if pod.Spec.Affinity == nil {
		t.Fatal("the Pod prefers no node")
	}
	terms := pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].Weight != 100 || terms[0].Preference.MatchFields[0].Values[0] != "n0" {
		t.Errorf("the Pod prefers %+v", terms)
	}
}

func (f *fixture) checkReported(t *testing.T) {
	t.Helper()
	var reasons []string
	for _, event := range f.drain() {
		fields := strings.Fields(event)
		reasons = append(reasons, fields[0]+" "+fields[1])
	}
	want := []string{"Normal Proposed", "Normal Approved", "Normal Executing", "Normal Rescheduling", "Normal Rescheduled", "Normal Moved", "Normal Done"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for name, got := range map[string]float64{
		"moves":    testutil.ToFloat64(f.metrics.moves.WithLabelValues("PendingTask", "Moved")),
		"plans":    testutil.ToFloat64(f.metrics.plans.WithLabelValues("PendingTask", "Done")),
		"lost":     testutil.ToFloat64(f.metrics.lost.WithLabelValues("default")) / 2, // two GPUs ran for a minute
		"regained": testutil.ToFloat64(f.metrics.regained) / 4,
	} {
		if got != 1 {
			t.Errorf("metric %s: %v", name, got)
		}
	}
}

// The process may die between any two requests: the next one begins without memory.
func TestAPlanSurvivesTheProcess(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.create()
	arrived, started := false, false
	for range 40 {
		f.pass()
		f.tries = map[types.UID]moveplan.Try{}
		pod := f.replace("moves")
		switch {
		case pod.Spec.NodeName == "":
			f.bind("moves", "n0")
			arrived = true
		case arrived && !started:
			f.bind("big", "n1")
			started = true
		}
	}
	if got := f.current().Status; got.Phase != v1.PlanDone || f.reserved("n0", "n1") != "" {
		t.Errorf("status %+v, kept %s", got, f.reserved("n0", "n1"))
	}
}

func TestAConflictIsTriedAgain(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "any"}, "any", nil)
	tests := map[string]struct {
		verb, resource string
		passes         int
	}{
		"of the plan":         {"update", "moveplans", 0},
		"of a node":           {"patch", "nodes", 2},
		"of the task's count": {"update", "gputasks", 5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newPlanFixture(t)
			f.create()
			for range test.passes {
				f.pass()
			}
			fake := &f.fake.Fake
			if test.resource == "nodes" {
				fake = &f.kube.Fake
			}
			failNext(fake, test.verb, test.resource, conflict)
			if _, err := f.executePlans(t.Context()); !apierrors.IsConflict(err) {
				t.Fatalf("got error %v, want the conflict", err)
			}
			f.observe()
			if writes := f.pass(); !slices.ContainsFunc(writes, func(write string) bool { return strings.HasPrefix(write, test.verb+" "+test.resource) }) {
				t.Errorf("writes %v, want it again", writes)
			}
		})
	}
}

func TestARefusedEvictionIsAskedForAgain(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.create()
	for range 4 {
		f.pass()
	}
	failNext(&f.kube.Fake, "create", "pods", apierrors.NewTooManyRequests("a PodDisruptionBudget", 10))
	if writes := f.pass(); len(writes) != 1 || writes[0] != "create pods/eviction" {
		t.Fatalf("writes %v", writes)
	}
	if writes := f.pass(); len(writes) != 0 {
		t.Fatalf("writes %v at once after the refusal", writes)
	}
	f.clock.Step(2 * time.Second)
	if writes := f.pass(); len(writes) != 1 || writes[0] != "create pods/eviction" {
		t.Fatalf("writes %v a while after the refusal", writes)
	}
	if refused := testutil.ToFloat64(f.deps.Evictions.WithLabelValues("refused")); refused != 1 {
		t.Errorf("%v refusals were counted", refused)
	}
}

func TestADriftAbortsThePlan(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.create()
	for range 3 {
		f.pass()
	}
	f.addTask("late", "2", "n0") // it takes the place
	f.observe()
	f.pass()
	if got := f.current().Status; got.Phase != v1.PlanAborted || got.Reason != moveplan.ReasonDrifted {
		t.Errorf("status %+v", got)
	}
}

// A plan may have waited long for approval: the work that its Pods have done since is lost,
// too.
func TestABudgetCountsWhatIsLostNow(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t, func(with *settings) { with.Planner.GPUMinutesPerHour = 1 })
	f.plan.Spec.Moves[0].LostGPUSeconds = 10 // now it is 2 GPUs for a minute
	f.create()
	f.pass()
	f.pass()
	got := f.current().Status
	if got.Phase != v1.PlanAborted || !strings.Contains(got.Message, "2 GPU-minutes of namespace default would be lost, 1 of 1 are left") {
		t.Errorf("status %+v", got)
	}
}

func TestEvictionsAreForgottenWithTheirPlan(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t)
	f.plan.Spec.Approved = false
	f.create()
	for _, pod := range []types.UID{"pod-of-moves", "pod-of-another-plan"} {
		f.tries[pod] = moveplan.Try{Granted: true}
	}
	f.pass()
	want := map[types.UID]moveplan.Try{"pod-of-moves": {Granted: true}}
	if diff := cmp.Diff(want, f.tries); diff != "" {
		t.Errorf("tries while a proposal waits (-want +got):\n%s", diff)
	}
}

func TestPlansOfOtherNamespacesAreLeftAlone(t *testing.T) {
	t.Parallel()
	f := newPlanFixture(t, func(with *settings) { with.Namespace = "another" })
	f.create()
	if writes := f.pass(); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
	if err := f.deleteOldPlans(t.Context()); err != nil {
		t.Fatal(err)
	}
	if writes := f.writes(); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}
