// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reservation"
)

// movesFixture is a cluster of two nodes of four GPUs, each with a task of two, and a
// task of four that waits; and the plan to move one of them.
type movesFixture struct {
	*fixture
	plan *v1.MovePlan
}

func newMovesFixture(t *testing.T, change ...func(*options)) *movesFixture {
	t.Helper()
	f := &movesFixture{fixture: newFixture(t, append([]func(*options){rescheduling}, change...)...)}
	f.kube.PrependReactor("create", "pods", f.evictions)
	for _, name := range []string{"n0", "n1"} {
		node := gpuNode(name, "h100")
		node.Status.Allocatable[v1.ResourceGPU] = resource.MustParse("4")
		if err := f.kube.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	f.addTask("stays", "2", "n0")
	mover := f.addTask("moves", "2", "n1")
	big := f.addTask("big", "4", "")
	f.plan = &v1.MovePlan{ObjectMeta: metav1.ObjectMeta{Name: "make-room", UID: "uid-of-plan", CreationTimestamp: metav1.NewTime(testTime)}, Spec: v1.MovePlanSpec{
		Goal: v1.GoalPendingTask, Reason: "big fits nowhere", Approved: true, Gain: v1.MoveGain{GPUs: 4},
		For:    &v1.TaskReference{Namespace: "default", Name: "big", UID: big.UID},
		Places: []v1.PodPlace{{Pod: "big", MovePlace: v1.MovePlace{Node: "n1"}}},
		Moves: []v1.Move{{
			Task: v1.TaskReference{Namespace: "default", Name: "moves", UID: mover.UID}, Pod: "moves", PodUID: "pod-of-moves", GPUs: "2",
			From: v1.MovePlace{Node: "n1"}, To: v1.MovePlace{Node: "n0"}, LostGPUSeconds: 60,
		}},
	}}
	f.observe()
	return f
}

// addTask stores a task that runs on a node, or waits for one.
func (f *movesFixture) addTask(name, gpus, node string) *v1.GPUTask {
	f.t.Helper()
	task := newTask(name, 1)
	task.UID, task.Spec.GPUAmount, task.Spec.GPU = types.UID("uid-of-"+name), gpus, "h100"
	task.Status.Phase = v1.PhaseRunning
	if node == "" {
		task.Status.Phase = v1.PhasePending
	}
	if err := f.fake.Tracker().Add(task); err != nil {
		f.t.Fatal(err)
	}
	pod, err := gputask.NewPod(task, 0, 0, f.config.Pods)
	if err != nil {
		f.t.Fatal(err)
	}
	pod.UID, pod.CreationTimestamp = types.UID("pod-of-"+name), metav1.NewTime(testTime.Add(-time.Minute))
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodPending
	if node != "" {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = &pod.CreationTimestamp
	}
	if err := f.kube.Tracker().Add(pod); err != nil {
		f.t.Fatal(err)
	}
	return task
}

// create stores the plan.
func (f *movesFixture) create() {
	f.t.Helper()
	if err := f.fake.Tracker().Add(f.plan); err != nil {
		f.t.Fatal(err)
	}
	f.observe()
}

// evictions is the Eviction API: the Pod goes at once.
func (f *movesFixture) evictions(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.GetSubresource() != "eviction" {
		return false, nil, nil
	}
	name := action.(clienttesting.CreateAction).GetObject().(metav1.Object).GetName() //nolint:forcetypeassert // an Eviction
	return true, nil, f.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), action.GetNamespace(), name)
}

// observe copies what the API server has into all caches.
func (f *movesFixture) observe() {
	f.t.Helper()
	f.fixture.observe()
	plans, err := f.fake.FalldioV1().MovePlans().List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	var list []any
	for i := range plans.Items {
		list = append(list, &plans.Items[i])
		f.rescheduler.unseen.saw(&plans.Items[i])
	}
	if err := f.taskInformers.Falldio().V1().MovePlans().Informer().GetIndexer().Replace(list, ""); err != nil {
		f.t.Fatal(err)
	}
	nodes, err := f.kube.CoreV1().Nodes().List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range nodes.Items {
		f.showNode(&nodes.Items[i])
	}
	f.fake.ClearActions()
	f.kube.ClearActions()
}

// pass lets the rescheduler make one pass and returns what it wrote.
func (f *movesFixture) pass() []string {
	f.t.Helper()
	if _, err := f.rescheduler.carryOut(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	writes := f.writes()
	f.observe()
	return writes
}

func (f *movesFixture) current() *v1.MovePlan {
	f.t.Helper()
	plan, err := f.fake.FalldioV1().MovePlans().Get(f.t.Context(), f.plan.Name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return plan
}

// bind puts a Pod on a node, where it runs.
func (f *movesFixture) bind(name, node string) {
	f.t.Helper()
	pods := f.kube.CoreV1().Pods("default")
	pod, err := pods.Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if pod.UID == "" {
		pod.UID = types.UID("new-pod-of-" + name)
	}
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	if _, err := pods.Update(f.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	f.observe()
}

func (f *movesFixture) kept(node string) string {
	f.t.Helper()
	got, err := f.kube.CoreV1().Nodes().Get(f.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return got.Annotations[reservation.Annotation]
}

// drain returns the events since the last time.
func (f *movesFixture) drain() []string {
	var texts []string
	for len(f.events.Events) > 0 {
		texts = append(texts, <-f.events.Events)
	}
	return texts
}

func TestAPlanIsCarriedOut(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t)
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
		if kept := f.kept(node); !strings.Contains(kept, want) {
			t.Errorf("node %s keeps %s, want %s", node, kept, want)
		}
	}
	f.replaceMoved(t)
	f.bind("moves", "n0")
	if diff := cmp.Diff([]string{status}, f.pass()); diff != "" {
		t.Fatalf("writes on arrival (-want +got):\n%s", diff)
	}
	f.bind("big", "n1")
	f.pass()
	f.pass()
	if left := f.kept("n0") + f.kept("n1"); left != "" {
		t.Errorf("still kept: %s", left)
	}
	got := f.current().Status
	if got.Phase != v1.PlanDone || got.Reason != moveplan.ReasonStarted || got.Gain == nil || got.Gain.GPUs != 4 {
		t.Errorf("status %+v", got)
	}
	if task := f.stored(newTask("moves", 1)); task.Status.Moves != 1 || task.Status.LastMove == nil || task.Status.LastMove.Plan != "make-room" {
		t.Errorf("the task's status %+v", task.Status)
	}
	f.checkTold(t)
}

// replaceMoved lets the controller create the Pod anew that was evicted, and looks
// whether it prefers its destination.
func (f *movesFixture) replaceMoved(t *testing.T) {
	t.Helper()
	f.mustSync(newTask("moves", 1))
	pod, err := f.kube.CoreV1().Pods("default").Get(t.Context(), "moves", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Affinity == nil {
		t.Fatal("the Pod prefers no node")
	}
	terms := pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].Weight != 100 || terms[0].Preference.MatchFields[0].Values[0] != "n0" {
		t.Errorf("the Pod prefers %+v", terms)
	}
}

func (f *movesFixture) checkTold(t *testing.T) {
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
	metrics := f.rescheduler.metrics
	for name, got := range map[string]float64{
		"moves":    testutil.ToFloat64(metrics.moves.WithLabelValues("PendingTask", "Moved")),
		"plans":    testutil.ToFloat64(metrics.plans.WithLabelValues("PendingTask", "Done")),
		"lost":     testutil.ToFloat64(metrics.lost.WithLabelValues("default")) / 2, // two GPUs ran for a minute
		"regained": testutil.ToFloat64(metrics.regained) / 4,
	} {
		if got != 1 {
			t.Errorf("metric %s: %v", name, got)
		}
	}
}

// Between any two requests the process may die: the next one begins without memory.
func TestAPlanSurvivesTheProcess(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t)
	f.create()
	arrived, started := false, false
	for range 40 {
		f.pass()
		f.rescheduler.tries = map[types.UID]moveplan.Try{}
		f.mustSync(newTask("moves", 1))
		f.observe()
		pod, err := f.kube.CoreV1().Pods("default").Get(t.Context(), "moves", metav1.GetOptions{})
		switch {
		case err == nil && pod.Spec.NodeName == "":
			f.bind("moves", "n0")
			arrived = true
		case arrived && !started:
			f.bind("big", "n1")
			started = true
		}
	}
	if got := f.current().Status; got.Phase != v1.PlanDone || f.kept("n0")+f.kept("n1") != "" {
		t.Errorf("status %+v, kept %s", got, f.kept("n0")+f.kept("n1"))
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
			f := newMovesFixture(t)
			f.create()
			for range test.passes {
				f.pass()
			}
			fake := &f.fake.Fake
			if test.resource == "nodes" {
				fake = &f.kube.Fake
			}
			failNext(fake, test.verb, test.resource, 1, conflict)
			if _, err := f.rescheduler.carryOut(t.Context()); !apierrors.IsConflict(err) {
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
	f := newMovesFixture(t)
	f.create()
	for range 4 {
		f.pass()
	}
	failNext(&f.kube.Fake, "create", "pods", 1, apierrors.NewTooManyRequests("a PodDisruptionBudget", 10))
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
	if refused := testutil.ToFloat64(f.metrics.podsEvicted.WithLabelValues("refused")); refused != 1 {
		t.Errorf("%v refusals were counted", refused)
	}
}

func TestADriftAbortsThePlan(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t)
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

// A plan may have waited long for its approval: what its Pods have done since is lost, too.
func TestABudgetCountsWhatIsLostNow(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t, func(opts *options) { opts.rescheduling.plan.GPUMinutesPerHour = 1 })
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
	f := newMovesFixture(t)
	f.plan.Spec.Approved = false
	f.create()
	for _, pod := range []types.UID{"pod-of-moves", "pod-of-another-plan"} {
		f.rescheduler.tries[pod] = moveplan.Try{Granted: true}
	}
	f.pass()
	want := map[types.UID]moveplan.Try{"pod-of-moves": {Granted: true}}
	if diff := cmp.Diff(want, f.rescheduler.tries); diff != "" {
		t.Errorf("tries while a proposal waits (-want +got):\n%s", diff)
	}
}

func TestPlansOfOtherNamespacesAreLeftAlone(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t, func(opts *options) { opts.namespace = "another" })
	f.create()
	if writes := f.pass(); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
	if err := f.rescheduler.forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	if writes := f.writes(); len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}

func TestAPlanIsProposedOnce(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t, func(opts *options) { opts.rescheduling.plan.ApproveCost = 0 })
	f.clock.Step(time.Hour) // longer than any patience
	f.fake.PrependReactor("create", "moveplans", func(action clienttesting.Action) (bool, runtime.Object, error) {
		plan := action.(clienttesting.CreateAction).GetObject().(*v1.MovePlan) //nolint:forcetypeassert // it is one
		plan.Name, plan.UID, plan.ResourceVersion = plan.GenerateName+"x", "uid-of-plan", "7"
		return true, plan, f.fake.Tracker().Add(plan)
	})
	for range 2 {
		if err := f.rescheduler.propose(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"create moveplans"}, f.writes()); diff != "" {
		t.Fatalf("writes (-want +got):\n%s", diff)
	}
	f.observe()
	plans, err := f.rescheduler.ownPlans()
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
	if err := f.rescheduler.propose(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.current().Status; got.Phase != v1.PlanAborted || got.Reason != moveplan.ReasonStale {
		t.Errorf("status %+v", got)
	}
}

func TestOldPlansAreForgotten(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t)
	f.plan.Status = v1.MovePlanStatus{Phase: v1.PlanDone, CompletionTime: &metav1.Time{Time: testTime}}
	f.create()
	for _, test := range []struct {
		after time.Duration
		want  []string
	}{{23 * time.Hour, nil}, {2 * time.Hour, []string{"delete moveplans"}}} {
		f.clock.Step(test.after)
		if err := f.rescheduler.forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, f.writes()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
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
			f := newMovesFixture(t)
			f.plan.Status.Phase, f.plan.Spec.Approved = test.phase, test.approved
			f.create()
			f.showNode(gpuNode("n1", "another-model"))
			// The task ends meanwhile, so that nobody waits for its new place.
			ended := f.stored(newTask("moves", 1))
			ended.Status.Phase = v1.PhaseSucceeded
			f.kube.PrependReactor("create", "pods", f.whenEvicted(ended))
			if err := f.rescheduler.repair(t.Context()); err != nil {
				t.Fatal(err)
			}
			if evictions := f.fixture.evictions(); (evictions > 0) != test.repairs {
				t.Errorf("%d evictions", evictions)
			}
		})
	}
}

// A repair waits for minutes until its task runs again: a person who approves a plan must
// not.
func TestARepairDoesNotKeepAnApprovedPlanWaiting(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t)
	f.plan.Spec.Approved = false
	f.create()
	f.showNode(gpuNode("n1", "another-model"))
	approved := f.current()
	approved.Spec.Approved = true
	plans := f.taskInformers.Falldio().V1().MovePlans().Informer().GetIndexer()
	f.kube.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		return true, nil, plans.Update(approved) // and the task does not run again
	})
	begin := time.Now()
	if err := f.rescheduler.repair(t.Context()); err != nil {
		t.Fatal(err)
	}
	if f.fixture.evictions() != 1 || time.Since(begin) > settleLimit/2 {
		t.Errorf("%d evictions in %v", f.fixture.evictions(), time.Since(begin))
	}
}

func TestTheLedgerIsShown(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t)
	f.plan.Status = v1.MovePlanStatus{
		Phase: v1.PlanExecuting, Moves: []v1.MoveStatus{{State: v1.MoveEvicted, EvictedAt: &metav1.Time{Time: testTime}, LostGPUSeconds: 600}},
	}
	f.create()
	want := `
# HELP gpu_controller_move_plans MovePlans that have not ended, by phase (Proposed, Approved, Executing).
# TYPE gpu_controller_move_plans gauge
gpu_controller_move_plans{phase="Approved"} 0
gpu_controller_move_plans{phase="Executing"} 1
gpu_controller_move_plans{phase="Proposed"} 0
# HELP gpu_controller_moves_left Pods that may still be moved within the hour, if there is a limit.
# TYPE gpu_controller_moves_left gauge
gpu_controller_moves_left 119
# HELP gpu_controller_moves_left_gpu_minutes GPU-minutes of work that may still be lost to moves within the hour, of the namespaces that have lost some, if there is a limit.
# TYPE gpu_controller_moves_left_gpu_minutes gauge
gpu_controller_moves_left_gpu_minutes{namespace="default"} 590
`
	if err := testutil.CollectAndCompare(f.rescheduler.metrics.state, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// A change wakes the rescheduler only while there is a plan that may wait for it.
func TestWhatWakesTheRescheduler(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t)
	woken := func() bool {
		select {
		case <-f.rescheduler.wake:
			return true
		default:
			return false
		}
	}
	pod := f.podOf(newTask("moves", 1))
	if f.podChanged(pod); woken() {
		t.Error("a Pod wakes it although there is no plan")
	}
	f.plan.Spec.Approved = false
	f.create()
	f.pass()
	if f.podChanged(pod); woken() {
		t.Error("a Pod wakes it although the plan waits for its approval")
	}
	f.plan = f.current()
	f.plan.Spec.Approved = true
	if _, err := f.fake.FalldioV1().MovePlans().Update(t.Context(), f.plan, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.observe()
	f.pass()
	if f.podChanged(pod); !woken() {
		t.Error("a Pod does not wake it although there is a plan")
	}
}

func TestTheReschedulerRunsUntilItIsToldToStop(t *testing.T) {
	t.Parallel()
	f := newMovesFixture(t)
	f.create()
	f.rescheduler.caches = nil // the fixture fills them
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.rescheduler.run(ctx)
	}()
	for f.current().Status.Phase == "" {
		f.clock.Step(passRetry)
	}
	stop()
	<-ended
}
