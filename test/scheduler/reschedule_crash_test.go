// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// killPoints are the states of a plan at which a process is killed.
var killPoints = []struct {
	name string
	is   func(*v1.MovePlan) bool
}{
	{"it is proposed", func(*v1.MovePlan) bool { return true }},
	{"it is approved", func(plan *v1.MovePlan) bool { return plan.Status.Phase != "" && plan.Status.Phase != v1.PlanProposed }},
	{"it is being carried out", func(plan *v1.MovePlan) bool { return plan.Status.Phase == v1.PlanExecuting || isFinal(plan) }},
	{"a Pod is evicted", func(plan *v1.MovePlan) bool { return hasMove(plan, v1.MoveEvicted, v1.MoveMoved) }},
	{"a Pod is moved", func(plan *v1.MovePlan) bool { return hasMove(plan, v1.MoveMoved) }},
	{"it is done", isFinal},
}

func hasMove(plan *v1.MovePlan, states ...v1.MoveState) bool {
	return isFinal(plan) || slices.ContainsFunc(plan.Status.Moves, func(move v1.MoveStatus) bool { return slices.Contains(states, move.State) })
}

// TestKillingAProcessAtAnyStateOfAPlanLosesNothing kills the controller, the
// scheduler, or both, when a plan that moves a gang and a single Pod reaches a state.
// The plan must be completed, and every task, also the one that waited, must run
// completely and exactly once.
func TestKillingAProcessAtAnyStateOfAPlanLosesNothing(t *testing.T) {
	t.Parallel()
	victims := map[string]func(*rescheduling){
		"the controller": (*rescheduling).killController,
		"the scheduler":  (*rescheduling).killScheduler,
		"both": func(r *rescheduling) {
			r.killScheduler()
			r.killController()
		},
	}
	for victim, kill := range victims {
		for _, moment := range killPoints {
			t.Run(fmt.Sprintf("killing %s when %s", victim, moment.name), func(t *testing.T) {
				t.Parallel()
				r := newRescheduling(t, machines(3, machine{name: "n", gpus: 4})...)
				r.run("n-0", gang{name: "gang", pods: 2})
				r.run("n-1", gang{name: "single", gpus: 1})
				r.run("n-2", gang{name: "fixed", gpus: 1})
				r.setPolicy(v1.ReschedulingNever, "fixed")
				r.reschedule()
				// Two nodes have to be emptied: three Pods move to the third one.
				r.submit(gang{name: "big", pods: 2, gpus: 4})
				r.waitForPlan("exists, when "+moment.name, moment.is)
				kill(r)
				r.waitForRunning("big")
				for _, task := range []string{"gang", "single", "fixed"} {
					r.waitForRunning(task)
					if got := r.getTask(task).Status; got.Restarts != 0 || got.Moves > 1 {
						t.Errorf("GPUTask %s: %d restarts, %d moves were counted", task, got.Restarts, got.Moves)
					}
				}
				r.checkSettled()
				r.reportWindows()
			})
		}
	}
}

// TestAPlanThatRealityHasLeftIsAborted loses the target node of a move while the plan
// is carried out.
func TestAPlanThatRealityHasLeftIsAborted(t *testing.T) {
	t.Parallel()
	r := newRescheduling(t, machines(3, machine{name: "n", gpus: 4})...)
	r.run("n-0", gang{name: "a", gpus: 2})
	r.run("n-1", gang{name: "b", gpus: 2})
	r.run("n-2", gang{name: "fixed", gpus: 1})
	r.setPolicy(v1.ReschedulingNever, "fixed")
	r.reschedule("--reschedule-approve-cost=0")
	r.submit(gang{name: "big", gpus: 4})
	plan := r.waitForPhase(v1.PlanProposed)
	destination := plan.Spec.Moves[0].To.Node
	r.patchPlan(plan.Name, `{"spec": {"approved": true}}`)
	r.waitForPlan("evicts", func(plan *v1.MovePlan) bool { return hasMove(plan, v1.MoveEvicted, v1.MoveMoved) })
	r.loseNode(destination[len(r.namespace)+1:])
	r.waitForPlan("has ended", func(got *v1.MovePlan) bool { return got.Name == plan.Name && isFinal(got) })
	moved := plan.Spec.Moves[0].Task.Name
	r.eventually("the Pod that moved is not lost", func() (bool, string) {
		pods := r.ledger.podsOf(moved)
		return countPods(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil }) == 1, describe(pods)
	})
	r.addNode(machine{name: "new", gpus: 8})
	for _, task := range []string{"a", "b", "big"} {
		r.waitForRunning(task)
	}
	r.checkSettled()
}
