// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// TestTheDocumentsExampleOfRescheduling: node1 with 8 GPUs runs A (4) and B (3), then C
// (4) is created. In the end A and C fill node1 and B runs on the other node.
func TestTheDocumentsExampleOfRescheduling(t *testing.T) {
	t.Parallel()
	for name, spare := range map[string]int{
		"C starts elsewhere at first":          8,
		"C fits nowhere until B has made room": 3,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRescheduling(t, machine{name: "one", gpus: 8}, machine{name: "two", gpus: spare})
			r.run("one", gang{name: "a", gpus: 4}, gang{name: "b", gpus: 3})
			before := r.identities("a")
			r.submit(gang{name: "c", gpus: 4})
			if spare >= 4 {
				r.waitForBound(1, "c")
			}
			r.reschedule("--reschedule-threshold=1")
			r.eventually("node one has A and C, node two has B", func() (bool, string) {
				places := map[string]string{}
				for _, task := range []string{"a", "b", "c"} {
					for _, pod := range r.ledger.podsOf(task) {
						if stays(pod) {
							places[task] = pod.Spec.NodeName
						}
					}
				}
				return places["a"] == r.node("one") && places["c"] == r.node("one") && places["b"] == r.node("two"),
					fmt.Sprint(places, r.describePlans())
			})
			r.checkUntouched(before, "a")
			r.checkSettled()
		})
	}
}

// TestABigTaskStartsAfterAsFewMovesAsPossible: of four partly used nodes, one can be
// emptied by moving a single Pod.
func TestABigTaskStartsAfterAsFewMovesAsPossible(t *testing.T) {
	t.Parallel()
	r := newRescheduling(t, machines(4, machine{name: "n", gpus: 8})...)
	r.run("n-0", gang{name: "two", gpus: 2})
	r.run("n-1", gang{name: "three-a", gpus: 3}, gang{name: "three-b", gpus: 3})
	r.run("n-2", gang{name: "one", gpus: 1}, gang{name: "four", gpus: 4})
	r.run("n-3", gang{name: "seven", gpus: 7})
	r.reschedule()
	r.submit(gang{name: "big", gpus: 8})
	pods := r.waitForRunning("big")
	if pods[0].Spec.NodeName != r.node("n-0") {
		t.Errorf("it runs on %s", pods[0].Spec.NodeName)
	}
	plan := r.waitForPhase(v1.PlanDone)
	if len(plan.Spec.Moves) != 1 || plan.Spec.Moves[0].Pod != "two" || plan.Status.Moved != 1 {
		t.Errorf("%d Pods were moved, %+v", plan.Status.Moved, plan.Spec.Moves)
	}
	if gain := plan.Status.Gain; gain == nil || gain.GPUs != 8 || plan.Spec.Gain.GPUs != 8 {
		t.Errorf("gain: predicted %+v, realised %+v", plan.Spec.Gain, gain)
	}
	moved := r.getTask("two")
	if moved.Status.Moves != 1 || moved.Status.LastMove == nil || moved.Status.LastMove.Plan != plan.Name || moved.Status.Restarts != 0 {
		t.Errorf("the status of the task that was moved: %+v", moved.Status)
	}
	r.waitForRunning("two")
	r.checkSettled()
}

func TestWhatMustNotMoveIsNotMoved(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		protect, release func(*rescheduling)
		args             []string
	}{
		"by a disruption budget": {
			protect: func(r *rescheduling) { r.guard("a", "b") },
			release: func(r *rescheduling) { r.unguard() },
		},
		"by its own policy": {
			protect: func(r *rescheduling) { r.setPolicy(v1.ReschedulingNever, "a", "b") },
			release: func(r *rescheduling) { r.setPolicy(v1.ReschedulingAllowed, "a") },
		},
		"before it has run for long enough": {
			protect: func(r *rescheduling) {
				r.patchTasks(`{"spec": {"rescheduling": {"minRuntimeSeconds": 3600}}}`, "a", "b")
			},
			release: func(r *rescheduling) { r.patchTasks(`{"spec": {"rescheduling": {"minRuntimeSeconds": 0}}}`, "b") },
		},
		"more often than it wants": {
			protect: func(r *rescheduling) { r.patchTasks(`{"spec": {"rescheduling": {"maxMoves": 0}}}`, "a", "b") },
			release: func(r *rescheduling) { r.patchTasks(`{"spec": {"rescheduling": {"maxMoves": 1}}}`, "b") },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := fragmented(t)
			test.protect(r)
			before := r.identities("a")
			for uid := range r.identities("b") {
				before[uid] = true
			}
			r.reschedule()
			r.submit(gang{name: "big", gpus: 8})
			r.waitForRefusal("big", "8 GPUs")
			r.letPass(4 * time.Second) // some periods
			r.checkUntouched(before, "a", "b")
			r.waitForBound(0, "big")
			test.release(r)
			r.waitForRunning("big")
			r.checkSettled()
		})
	}
}

func TestATaskSavesItsWorkBeforeItIsMoved(t *testing.T) {
	t.Parallel()
	r := newRescheduling(t, machines(2, machine{name: "n", gpus: 8})...)
	saves := &v1.Checkpoint{Mode: v1.CheckpointSignal, TimeoutSeconds: new(int32(3600))}
	r.run("n-0", gang{name: "a", gpus: 4, checkpoint: saves})
	r.run("n-1", gang{name: "b", gpus: 4, checkpoint: saves})
	r.reschedule()
	r.submit(gang{name: "big", gpus: 8})
	var asked *corev1.Pod
	r.eventually("a Pod is asked for a checkpoint", func() (bool, string) {
		for _, task := range []string{"a", "b"} {
			for _, pod := range r.ledger.podsOf(task) {
				if pod.Annotations[v1.AnnotationCheckpointRequested] != "" {
					asked = pod
				}
			}
		}
		return asked != nil, r.describePlans()
	})
	if !stays(asked) {
		t.Errorf("Pod %s has no time to save its work", asked.Name)
	}
	r.patchTasks(`{"metadata": {"annotations": {"`+v1.AnnotationLastCheckpoint+`": "`+time.Now().Add(time.Second).UTC().Format(time.RFC3339)+`"}}}`, asked.Name)
	r.waitForRunning("big")
	r.checkSettled()
}

// guard protects the Pods of tasks from eviction.
func (r *rescheduling) guard(tasks ...string) {
	r.Helper()
	budgets := r.kube.PolicyV1().PodDisruptionBudgets(r.namespace)
	_, err := budgets.Create(r.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)),
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: v1.LabelTask, Operator: metav1.LabelSelectorOpIn, Values: tasks},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.eventually("the disruption budget is in force", func() (bool, string) {
		budget, err := budgets.Get(r.Context(), "guard", metav1.GetOptions{})
		return err == nil && budget.Status.ObservedGeneration > 0, fmt.Sprint(err)
	})
}

func (r *rescheduling) unguard() {
	r.Helper()
	if err := r.kube.PolicyV1().PodDisruptionBudgets(r.namespace).Delete(r.Context(), "guard", metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
}

func (r *rescheduling) setPolicy(policy v1.ReschedulingPolicy, tasks ...string) {
	r.Helper()
	r.patchTasks(fmt.Sprintf(`{"spec": {"rescheduling": {"policy": %q}}}`, policy), tasks...)
}

func (s *suite) patchTasks(patch string, tasks ...string) {
	s.Helper()
	for _, task := range tasks {
		_, err := s.tasks.FalldioV1().GPUTasks(s.namespace).Patch(s.Context(), task, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			s.Fatal(err)
		}
	}
}

// TestAGangMovesWhole: one of its two Pods is in the way of a bigger task.
func TestAGangMovesWhole(t *testing.T) {
	t.Parallel()
	r := newRescheduling(t, machines(3, machine{name: "n", gpus: 8})...)
	r.runApart("n-0", "n-1")
	r.run("n-2", gang{name: "fixed", gpus: 6})
	r.setPolicy(v1.ReschedulingNever, "fixed")
	r.waitForRunning("gang")
	before := r.identities("gang")
	r.reschedule()
	r.submit(gang{name: "big", gpus: 8})
	r.waitForRunning("big")
	for _, pod := range r.waitForRunning("gang") {
		if before[pod.UID] {
			t.Errorf("Pod %s of the gang stayed while another one moved", pod.Name)
		}
	}
	plan := r.waitForPhase(v1.PlanDone)
	if len(plan.Spec.Moves) != 2 || plan.Spec.Moves[0].Turn != plan.Spec.Moves[1].Turn {
		t.Errorf("the gang's moves: %+v", plan.Spec.Moves)
	}
	if moves := r.getTask("gang").Status.Moves; moves != 1 {
		t.Errorf("%d moves of the task were counted", moves)
	}
	r.checkSettled()
	r.reportWindows()
}

// runApart runs a gang of two Pods of one GPU each, one on each of two nodes.
func (r *rescheduling) runApart(first, second string) {
	r.Helper()
	// Fillers take seven of eight GPUs for a moment, so that each node has room for one.
	r.run(first, gang{name: "filler-a", gpus: 7})
	r.run(second, gang{name: "filler-b", gpus: 7})
	r.patchNode("n-2", `{"spec": {"unschedulable": true}}`)
	r.submit(gang{name: "gang", pods: 2})
	r.waitForRunning("gang")
	r.patchNode("n-2", `{"spec": {"unschedulable": false}}`)
	for _, filler := range []string{"filler-a", "filler-b"} {
		if err := r.tasks.FalldioV1().GPUTasks(r.namespace).Delete(r.Context(), filler, metav1.DeleteOptions{}); err != nil {
			r.Fatal(err)
		}
		r.waitForBound(0, filler)
	}
}

func TestMovesKeepTheirBudget(t *testing.T) {
	t.Parallel()
	r := newRescheduling(t, machines(4, machine{name: "n", gpus: 8})...)
	for i := range 4 {
		r.run(fmt.Sprintf("n-%d", i), gang{name: fmt.Sprintf("half-%d", i), gpus: 4})
	}
	r.reschedule("--reschedule-moves-per-hour=1")
	r.submit(gang{name: "first", gpus: 8})
	r.waitForRunning("first")
	r.submit(gang{name: "second", gpus: 8})
	r.waitForRefusal("second", "8 GPUs")
	r.letPass(4 * time.Second)
	r.waitForBound(0, "second")
	if plans := r.plans(); len(plans) != 1 {
		t.Errorf("%d plans: %s", len(plans), r.describePlans())
	}
	r.reschedule("--reschedule-moves-per-hour=2")
	r.waitForRunning("second")
	r.checkSettled()
}

func TestATaskThatWasMovedIsLeftInPeaceForAWhile(t *testing.T) {
	t.Parallel()
	r := fragmented(t)
	r.setPolicy(v1.ReschedulingNever, "b")
	r.reschedule("--reschedule-cooldown=1h")
	r.submit(gang{name: "big", gpus: 8})
	r.waitForRunning("big")
	if err := r.tasks.FalldioV1().GPUTasks(r.namespace).Delete(t.Context(), "big", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.waitForBound(0, "big")
	// Now n-0 is free, and n-1 full: to free another node, a would have to move back.
	r.addNode(machine{name: "more", gpus: 4})
	// Cordoning the others instead would move a off its node.
	r.submit(gang{name: "stays", gpus: 1, node: "n-0"})
	r.waitForRunning("stays")
	r.setPolicy(v1.ReschedulingNever, "stays")
	before := r.identities("a")
	r.submit(gang{name: "other", gpus: 4, min: 2, pods: 2})
	r.waitForRunning("other")
	r.letPass(3 * time.Second)
	r.checkUntouched(before, "a")
	r.checkSettled()
}

// TestAPlanThatCostsTooMuchWaitsForAPerson covers manual approval and abortion.
func TestAPlanThatCostsTooMuchWaitsForAPerson(t *testing.T) {
	t.Parallel()
	r := fragmented(t)
	r.reschedule("--reschedule-approve-cost=0")
	r.submit(gang{name: "big", gpus: 8})
	first := r.waitForPhase(v1.PlanProposed)
	r.letPass(3 * time.Second)
	r.waitForBound(0, "big")
	r.patchPlan(first.Name, `{"spec": {"abort": true}}`)
	r.waitForPlan("is aborted", func(plan *v1.MovePlan) bool { return plan.Name == first.Name && plan.Status.Phase == v1.PlanAborted })
	second := r.waitForPlan("is proposed again", func(plan *v1.MovePlan) bool { return plan.Name != first.Name && plan.Status.Phase == v1.PlanProposed })
	r.patchPlan(second.Name, `{"spec": {"approved": true}}`)
	r.waitForRunning("big")
	r.waitForPlan("is done", func(plan *v1.MovePlan) bool { return plan.Name == second.Name && plan.Status.Phase == v1.PlanDone })
	r.checkSettled()
}

func (r *rescheduling) patchPlan(name, patch string) {
	r.Helper()
	_, err := r.tasks.FalldioV1().MovePlans().Patch(r.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		r.Fatal(err)
	}
}

// TestRecreationStopsOneTaskAfterTheOther is the procedure in the documents, with whole
// gangs.
func TestRecreationStopsOneTaskAfterTheOther(t *testing.T) {
	t.Parallel()
	r := newRescheduling(t, machines(2, machine{name: "n", gpus: 8})...)
	names := []string{"single", "gang"}
	before := map[types.UID]bool{}
	for i, name := range names {
		r.submit(gang{name: name, pods: 1 + 2*i, gpus: 2})
		r.waitForRunning(name)
		for uid := range r.identities(name) {
			before[uid] = true
		}
	}
	r.reschedule("--reschedule-mode=recreate", "--reschedule-cooldown=1h")
	r.eventually("all Pods are new and run", func() (bool, string) {
		count := 0
		for _, name := range names {
			count += countPods(r.ledger.podsOf(name), func(pod *corev1.Pod) bool {
				return stays(pod) && !before[pod.UID] && pod.Status.Phase == corev1.PodRunning
			})
		}
		return count == 4, fmt.Sprintf("%d; %s", count, r.describePlans())
	})
	for _, name := range names {
		r.waitForRunning(name)
		r.eventually("the move of "+name+" is counted", func() (bool, string) {
			status := r.getTask(name).Status
			return status.Moves == 1 && status.Restarts == 0, fmt.Sprintf("%+v", status)
		})
	}
	r.checkSettled()
	r.reportWindows()
}
