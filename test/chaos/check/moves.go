// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reservation"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// The invariants of rescheduling.
const (
	// InvariantReserved says that each place that a plan needs is reserved before its Pod is evicted.
	InvariantReserved = "nothing is moved without a reservation"
	// InvariantMayMove says that a Pod is evicted only by a plan that is being carried out, and only if its task
	// may be moved, and not more often than it allows.
	InvariantMayMove = "only what may be moved is moved"
	// InvariantBudget says that no more Pods are moved in an hour than --reschedule-moves-per-hour.
	InvariantBudget = "moves stay within the budget"
	// InvariantMovesCounted says that status.moves counts each turn of a plan that has evicted Pods of the task
	// once.
	InvariantMovesCounted = "each move is counted once"
)

// moves follows plans and reservations.
type moves struct {
	// reserved are the places that each plan has ever reserved: node and Pod.
	reserved map[string]map[place]bool
	// plans are the last revisions of all plans, also of those that are gone: an eviction that was
	// intended, and not needed any more, is taken out again.
	plans  map[types.UID]*v1.MovePlan
	judged map[types.UID]bool
	// before is what status.moves of each task was in its first revision in the history.
	before map[types.UID]int
}

type place struct{ node, pod string }

func newMoves() *moves {
	return &moves{
		reserved: map[string]map[place]bool{}, plans: map[types.UID]*v1.MovePlan{}, judged: map[types.UID]bool{},
		before: map[types.UID]int{},
	}
}

func (m *moves) take(w *world, s *step) {
	switch {
	case s.node != nil && !s.gone:
		m.remember(s.node)
	case s.task != nil && s.taskBefore == nil:
		m.before[s.task.UID] = int(s.task.Status.Moves)
	case s.plan != nil && s.gone:
		m.forget(w, s.plan)
	case s.plan != nil:
		m.plans[s.plan.UID] = s.plan
		m.judgeBudget(w, s.plan)
	case s.pod != nil:
		m.judge(w, s.pod)
	case s.Mark == history.Converged:
		m.compare(w)
	}
}

// forget forgets a plan that was deleted with its CRD: what it has moved can't count any more.
func (m *moves) forget(w *world, plan *v1.MovePlan) {
	if w.crdDeleted(crdPlans) {
		delete(m.plans, plan.UID)
	}
}

func (m *moves) remember(node *corev1.Node) {
	var list []reservation.Reservation
	if json.Unmarshal([]byte(node.Annotations[reservation.Annotation]), &list) != nil {
		return // none
	}
	for i := range list {
		if m.reserved[list[i].Plan] == nil {
			m.reserved[list[i].Plan] = map[place]bool{}
		}
		m.reserved[list[i].Plan][place{node: node.Name, pod: list[i].Pod}] = true
	}
}

// eviction is a turn of a plan in which Pods of a task were evicted, by the time of its beginning.
type eviction struct {
	plan types.UID
	at   time.Time
}

// turns returns the turns of all plans in which Pods of a task were evicted.
func (m *moves) turns(task types.UID) map[eviction]bool {
	all := map[eviction]bool{}
	for _, plan := range m.plans {
		for i := range plan.Status.Moves {
			if at := plan.Status.Moves[i].EvictedAt; at != nil && i < len(plan.Spec.Moves) && plan.Spec.Moves[i].Task.UID == task {
				all[eviction{plan: plan.UID, at: at.Time}] = true
			}
		}
	}
	return all
}

// judgeBudget looks at the Pods that were evicted within each hour.
func (m *moves) judgeBudget(w *world, last *v1.MovePlan) {
	if w.config.MovesPerHour == 0 {
		return
	}
	var evicted []time.Time
	for _, plan := range m.plans {
		for i := range plan.Status.Moves {
			if at := plan.Status.Moves[i].EvictedAt; at != nil {
				evicted = append(evicted, at.Time)
			}
		}
	}
	slices.SortFunc(evicted, time.Time.Compare)
	for first, after := 0, w.config.MovesPerHour; after < len(evicted); first, after = first+1, after+1 {
		if evicted[after].Sub(evicted[first]) < time.Hour {
			w.report(InvariantBudget, last.Name, "more than %d Pods were moved within the hour from %s on", w.config.MovesPerHour, evicted[first].UTC().Format(time.TimeOnly))
			return
		}
	}
}

// judge looks at a Pod that was evicted, once.
func (m *moves) judge(w *world, pod *corev1.Pod) {
	uid, owned := taskOf(pod)
	if !owned || m.judged[pod.UID] || !wasEvicted(pod) {
		return
	}
	m.judged[pod.UID] = true
	if w.isMoved(pod) {
		m.judgeRules(w, pod, w.tasks[uid])
	}
	for _, plan := range w.plans {
		if move := moveOf(plan, pod); move != nil {
			m.judgeMove(w, pod, plan, move)
		}
	}
}

func (m *moves) judgeMove(w *world, pod *corev1.Pod, plan *v1.MovePlan, move *v1.Move) {
	to := place{node: move.To.Node, pod: reservation.PodKey(pod.Namespace, move.Pod)}
	if to.node == "" || m.reserved[plan.Name][to] {
		return
	}
	w.report(InvariantReserved, fmt.Sprintf("%s of MovePlan %s", nameOf(pod), plan.Name), "the Pod is evicted to go to node %s, where no place was reserved for it", to.node)
}

// judgeRules looks at what the task of a Pod that was evicted says about moves.
func (m *moves) judgeRules(w *world, pod *corev1.Pod, task *v1.GPUTask) {
	if task == nil || task.Spec.Rescheduling == nil {
		return
	}
	rules := task.Spec.Rescheduling
	if mayNotMove(task) {
		w.report(InvariantMayMove, nameOf(pod), "the Pod is moved, and spec.rescheduling.policy of its task is Never")
	}
	if turns := len(m.turns(task.UID)); rules.MaxMoves != nil && turns > int(*rules.MaxMoves) {
		w.report(InvariantMayMove, nameOf(pod), "this is move %d of its task, and spec.rescheduling.maxMoves is %d", turns, *rules.MaxMoves)
	}
}

// mayNotMove reports whether a task forbids all moves.
func mayNotMove(task *v1.GPUTask) bool {
	return task != nil && task.Spec.Rescheduling != nil && task.Spec.Rescheduling.Policy == v1.ReschedulingNever
}

// compare compares what tasks say about their moves with the plans.
func (m *moves) compare(w *world) {
	if w.disruptions.crdEverDeleted(crdPlans) {
		return // plans were deleted before they were counted
	}
	for uid, task := range w.tasks {
		if got, want := int(task.Status.Moves), m.before[uid]+len(m.turns(uid)); got != want && !isFuzzed(task) {
			w.report(InvariantMovesCounted, nameOf(task), "status.moves is %d, and its Pods were evicted in %d turns of plans", got, want)
		}
	}
}
