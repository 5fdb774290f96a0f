// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// secondsPerPlan is the time in which at least one plan must have moved something for the
// test to be meaningful.
const secondsPerPlan = 20

// checkEnds waits until every task that was not deleted has succeeded, with all its Pods,
// without a retry.
func (w *stressState) checkEnds() {
	w.Helper()
	w.whileThereIsProgress("all tasks have succeeded", w.ledger.progress, func() (bool, string) {
		w.doWhatIsDue(time.Now())
		var left []string
		for _, j := range w.all {
			if j.cancelled {
				continue
			}
			if got := w.getTask(j.name); got.Status.Phase != v1.PhaseSucceeded {
				left = append(left, fmt.Sprintf("%s is %s: %s; %s", j.name, got.Status.Phase, got.Status.Message, describe(w.ledger.podsOf(j.name))))
			}
		}
		return len(left) == 0, fmt.Sprintf("%d have not:\n%s\nplans that have not ended: %s", len(left), strings.Join(left, "\n"), w.describeOpenPlans())
	})
	for _, j := range w.all {
		if j.cancelled {
			continue
		}
		if status := w.getTask(j.name).Status; status.Restarts != 0 || int(status.Succeeded) != j.pods {
			w.Errorf("GPUTask %s: %d restarts, %d of %d Pods have succeeded", j.name, status.Restarts, status.Succeeded, j.pods)
		}
	}
	var waits []time.Duration
	for _, j := range w.all {
		if r := w.ledger.record(j.name); j.isBig() && !r.whole.IsZero() {
			waits = append(waits, r.whole.Sub(r.created))
		}
	}
	w.Logf("big tasks waited %s", quantiles(waits))
	w.eventually("no GPU is held", func() (bool, string) {
		return w.ledger.heldCards() == 0, describe(w.ledger.podsWith(isHolding))
	})
}

func (w *stressState) describeOpenPlans() string {
	var texts []string
	for _, plan := range w.plans() {
		if !isFinal(&plan) {
			texts = append(texts, fmt.Sprintf("%s %s %s %+v", plan.Name, plan.Status.Phase, plan.Status.Message, plan.Status.Moves))
		}
	}
	return strings.Join(texts, "; ")
}

// checkLeaves checks that a plan moves a gang that requires one leaf into one leaf. Pods
// that are replaced when none of the others runs any more may be elsewhere.
func (w *stressState) checkLeaves(plan *v1.MovePlan, tasks map[string]*stressTask) {
	w.Helper()
	leaves := map[string]sets.Set[string]{}
	for i := range plan.Spec.Moves {
		move := &plan.Spec.Moves[i]
		if j := tasks[move.Task.Name]; j == nil || !j.required {
			continue
		}
		if leaves[move.Task.Name] == nil {
			leaves[move.Task.Name] = sets.New[string]()
		}
		leaves[move.Task.Name].Insert(w.leaves[strings.TrimPrefix(move.To.Node, w.namespace+"-")])
	}
	for task, all := range leaves {
		if len(all) != 1 {
			w.Errorf("MovePlan %s moves GPUTask %s, which must be in one leaf, to %v", plan.Name, task, sets.List(all))
		}
	}
}

// plansDone returns how many plans have completed all moves.
func (w *stressState) plansDone() int {
	w.Helper()
	done := 0
	for _, plan := range w.plans() {
		if plan.Status.Phase == v1.PlanDone && plan.Status.Moved > 0 {
			done++
		}
	}
	return done
}

func leastPlans() int { return *rescheduleSeconds / secondsPerPlan }

// checkMoves compares the moves in the status of the tasks with those of the plans.
func (w *stressState) checkMoves() {
	w.Helper()
	moved := map[types.UID]map[string]bool{}
	results, moves := map[string]int{}, 0
	plans := w.plans()
	for i := range plans {
		plan := &plans[i]
		results[fmt.Sprintf("%s %s %s", plan.Spec.Goal, plan.Status.Phase, plan.Status.Reason)]++
		moves += int(plan.Status.Moved)
		for j := range plan.Status.Moves {
			if plan.Status.Moves[j].EvictedAt == nil {
				continue
			}
			uid := plan.Spec.Moves[j].Task.UID
			if moved[uid] == nil {
				moved[uid] = map[string]bool{}
			}
			moved[uid][plan.Name] = true
		}
		w.checkRecord(plan)
	}
	w.Logf("%d plans moved %d Pods: %v", len(plans), moves, results)
	if done := w.plansDone(); done < leastPlans() {
		w.Errorf("only %d plans that moved anything were done, fewer than %d: this proves nothing", done, leastPlans())
	}
	for _, j := range w.all {
		if j.cancelled {
			continue
		}
		task := w.getTask(j.name)
		got, want := int(task.Status.Moves), len(moved[task.UID])
		switch {
		case got != want:
			w.Errorf("GPUTask %s has counted %d moves; plans that evicted its Pods: %v", j.name, got, moved[task.UID])
		case got > 0 && j.neverMoves():
			w.Errorf("GPUTask %s (never: %v, guarded: %v) was moved %d times", j.name, j.never, j.guarded, got)
		case j.maxMoves > 0 && got > int(j.maxMoves):
			w.Errorf("GPUTask %s was moved %d times, at most %d were allowed", j.name, got, j.maxMoves)
		}
	}
}

// checkRecord checks the status of a plan that has ended.
func (w *stressState) checkRecord(plan *v1.MovePlan) {
	w.Helper()
	names := map[string]*stressTask{}
	for _, j := range w.all {
		names[j.name] = j
	}
	w.checkLeaves(plan, names)
	count := 0
	for i := range plan.Status.Moves {
		record, move := &plan.Status.Moves[i], &plan.Spec.Moves[i]
		if record.State == v1.MoveMoved {
			count++
		}
		if record.State == v1.MoveWaiting {
			w.Errorf("MovePlan %s has ended and Pod %s still waits", plan.Name, move.Pod)
		}
		if j := names[move.Task.Name]; j == nil || j.neverMoves() {
			w.Errorf("MovePlan %s is to move Pod %s, which must not be moved", plan.Name, move.Pod)
		}
	}
	if count != int(plan.Status.Moved) || plan.Status.CompletionTime == nil {
		w.Errorf("MovePlan %s: %d Pods were moved, it says %+v", plan.Name, count, plan.Status)
	}
}

// checkPartial checks for how long gangs ran partially.
func (w *stressState) checkPartial() {
	w.Helper()
	all := w.ledger.partial(time.Now())
	for i := range all {
		limit := bindLimit
		if all[i].killed || all[i].lost || !all[i].growing {
			limit = recoverLimit
		}
		if all[i].elapsed > limit {
			w.Errorf("%s, more than %v", &all[i], limit)
		}
	}
	if open := slices.DeleteFunc(w.ledger.podsWith(isHolding), func(pod *corev1.Pod) bool { return pod.Labels["gang"] == "" }); len(open) > 0 {
		w.Errorf("still there: %s", describe(open))
	}
}
