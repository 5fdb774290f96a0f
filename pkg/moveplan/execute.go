// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/disruption"
)

// noTurn is the present turn of a plan of which all Pods have been moved.
const noTurn = int32(-1)

// waitCheck is how often it is looked whether a turn may begin.
const waitCheck = time.Second

func (s *step) execute() error {
	s.beginRecord()
	s.out.Count = s.uncounted()
	before := present(s.Plan, s.Plan.Status.Moves)
	s.watch()
	if s.status.Reason != "" {
		s.windDown()
		return nil
	}
	if elsewhere := s.newlyElsewhere(); elsewhere != "" {
		s.stop(ReasonElsewhere, elsewhere)
		return nil
	}
	turn := present(s.Plan, s.status.Moves)
	if turn != before {
		s.status.TurnTime = s.time()
	}
	if s.changed() {
		s.status.Message = s.progress(turn)
		return nil
	}
	switch {
	case turn == noTurn:
		s.finish()
		return nil
	case s.begun(turn):
		s.carry(turn)
		return nil
	default:
		return s.begin(turn)
	}
}

// present returns the first turn that is not over, noTurn if all are.
func present(plan *v1.MovePlan, records []v1.MoveStatus) int32 {
	for i := range records {
		if isOpen(records[i].State) {
			return plan.Spec.Moves[i].Turn
		}
	}
	return noTurn
}

func isOpen(state v1.MoveState) bool { return state == v1.MoveWaiting || state == v1.MoveEvicted }

func (s *step) newlyElsewhere() string {
	for i := range s.status.Moves {
		if s.status.Moves[i].State == v1.MoveElsewhere {
			move := &s.Plan.Spec.Moves[i]
			return fmt.Sprintf("Pod %s/%s came to be on node %s, not on %s", move.Task.Namespace, move.Pod, s.status.Moves[i].Node, move.To.Node)
		}
	}
	return ""
}

// open returns the indices of a turn's moves that are not over.
func (s *step) open(turn int32) []int {
	var indices []int
	for i := range s.Plan.Spec.Moves {
		if s.Plan.Spec.Moves[i].Turn == turn && isOpen(s.status.Moves[i].State) {
			indices = append(indices, i)
		}
	}
	return indices
}

// begun reports whether the intent to evict was written.
func (s *step) begun(turn int32) bool {
	for i := range s.Plan.Spec.Moves {
		if s.Plan.Spec.Moves[i].Turn == turn && s.status.Moves[i].EvictedAt != nil {
			return true
		}
	}
	return false
}

// begin writes the intent to carry out a turn if nothing speaks against it.
func (s *step) begin(turn int32) error {
	if s.mayEnd() {
		return nil
	}
	if node := s.goneNode(); node != "" {
		s.stop(ReasonDrifted, "node "+node+" is gone")
		return nil
	}
	indices := s.open(turn)
	if wait, reason := s.obstacle(indices); wait != "" {
		if s.isLate(turn) {
			s.stop(reason, wait)
			return nil
		}
		if reason == ReasonForbidden { // the rest is a matter of moments
			s.status.Message = fmt.Sprintf("turn %d of %d waits: %s", turn+1, turns(s.Plan), wait)
		}
		s.lookAgainAfter(waitCheck)
		return nil
	}
	switch {
	case s.Drift == nil:
		s.out.CheckDrift = s.rest()
		return nil
	case s.Drift.Err != nil && s.isLate(turn):
		s.stop(ReasonTimedOut, "could not find out whether the rest can be carried out: "+s.Drift.Err.Error())
		return nil
	case s.Drift.Err != nil:
		return s.Drift.Err
	case s.Drift.Why != "":
		s.stop(ReasonDrifted, s.Drift.Why)
		return nil
	}
	for _, i := range indices {
		move, record := &s.Plan.Spec.Moves[i], &s.status.Moves[i]
		record.State, record.EvictedAt = v1.MoveEvicted, s.time()
		record.LostGPUSeconds = s.lost(move)
	}
	s.status.TurnTime = s.time()
	s.status.Message = s.progress(turn)
	return nil
}

func (s *step) lost(move *v1.Move) int64 {
	seen := s.observe(move)
	if s.Lost == nil || seen.task == nil || seen.before == nil {
		return move.LostGPUSeconds
	}
	return s.Lost(seen.task.GPUTask, seen.before)
}

// obstacle says what a turn has to wait for before it begins; "" if nothing.
func (s *step) obstacle(indices []int) (what, reason string) {
	if missing := s.unreserved(); missing != "" {
		return missing, ReasonTimedOut
	}
	var pods []*corev1.Pod
	for _, i := range indices {
		seen := s.observe(&s.Plan.Spec.Moves[i])
		pods = append(pods, seen.before)
	}
	return disruption.NewBudgets(s.Objects.Budgets).Forbids(pods), ReasonForbidden
}

// mayEnd ends a plan between two turns if somebody wants that, or the rest is not
// needed any more.
func (s *step) mayEnd() bool {
	if s.Plan.Spec.Abort {
		s.stop(ReasonAbortRequested, fmt.Sprintf("aborted after %d of %d Pods were moved", s.status.Moved, s.status.Total))
		return true
	}
	if reason, message := s.needless(); reason != "" {
		s.skipOpen()
		s.end(v1.PlanDone, reason, message)
		return true
	}
	return false
}

// carry evicts the Pods of a turn that has begun and waits for their arrival.
func (s *step) carry(turn int32) {
	indices := s.open(turn)
	none := true
	for _, i := range indices {
		seen := s.observe(&s.Plan.Spec.Moves[i])
		none = none && !s.left(&seen, &s.Plan.Spec.Moves[i])
	}
	if none && len(indices) == len(s.all(turn)) && s.mayEnd() {
		return
	}
	if s.isLate(turn) {
		s.stop(s.whyLate(indices))
		return
	}
	if lost := lostPlace(s.Objects.Nodes, s.tasks, s.Plan, turn); lost != "" {
		s.stop(ReasonDrifted, lost)
		return
	}
	for _, i := range indices {
		move := &s.Plan.Spec.Moves[i]
		seen := s.observe(move)
		if s.left(&seen, move) {
			continue
		}
		if wait := s.retryAfter(move); wait > 0 {
			s.lookAgainAfter(wait)
			continue
		}
		s.out.Evict = append(s.out.Evict, seen.before)
		s.lookAgainAfter(waitCheck)
	}
	s.lookAgainAfter(s.deadline(turn).Sub(s.now))
}

// all returns the indices of a turn's moves.
func (s *step) all(turn int32) []int {
	var indices []int
	for i := range s.Plan.Spec.Moves {
		if s.Plan.Spec.Moves[i].Turn == turn {
			indices = append(indices, i)
		}
	}
	return indices
}

// retryAfter returns how long to wait before an eviction that was refused is asked for
// again: the longer the turn has lasted, the longer.
func (s *step) retryAfter(move *v1.Move) time.Duration {
	try, tried := s.Tries[move.PodUID]
	if !tried {
		return 0
	}
	pause := min(max(try.At.Sub(s.turnTime())/2, time.Second), 15*time.Second)
	return max(try.At.Add(pause).Sub(s.now), 0)
}

// whyLate says what a turn waited for in vain.
func (s *step) whyLate(indices []int) (reason, message string) {
	for _, i := range indices {
		move := &s.Plan.Spec.Moves[i]
		seen := s.observe(move)
		pod := move.Task.Namespace + "/" + move.Pod
		switch {
		case !s.left(&seen, move) && s.Tries[move.PodUID].Refusal != "":
			return ReasonForbidden, fmt.Sprintf("Pod %s could not be evicted in time: %s", pod, s.Tries[move.PodUID].Refusal)
		case !s.left(&seen, move):
			return ReasonForbidden, fmt.Sprintf("Pod %s could not be evicted in time", pod)
		case seen.before != nil:
			return ReasonTimedOut, fmt.Sprintf("Pod %s was evicted and did not end in time", pod)
		case seen.after == nil:
			return ReasonTimedOut, fmt.Sprintf("Pod %s was evicted and was not recreated in time", pod)
		case seen.after.Spec.NodeName == "":
			return ReasonTimedOut, fmt.Sprintf("Pod %s was evicted and found no node in time", pod)
		}
	}
	return ReasonTimedOut, "the Pods that were evicted did not run again in time"
}

// stop begins the end of a plan in which something is wrong. It ends at once if no
// Pod is on its way.
func (s *step) stop(reason, message string) {
	late := s.isLate(present(s.Plan, s.status.Moves))
	for i := range s.status.Moves {
		move, record := &s.Plan.Spec.Moves[i], &s.status.Moves[i]
		seen := s.observe(move)
		switch {
		case record.State == v1.MoveWaiting, record.State == v1.MoveEvicted && !s.left(&seen, move):
			s.skip(i)
		case record.State == v1.MoveEvicted && late:
			s.settle(i, &seen)
		}
	}
	if !s.underWay() {
		s.end(v1.PlanAborted, reason, message)
		return
	}
	s.status.Reason, s.status.Message = reason, message+waitText
}

// settle takes a Pod as arrived that has its node, whether it runs there or not.
func (s *step) settle(i int, seen *observedMove) {
	if seen.before == nil && seen.after != nil && seen.after.Spec.NodeName != "" {
		s.status.Moves[i].State, s.status.Moves[i].Node = v1.MoveMoved, seen.after.Spec.NodeName
		s.status.Moved++
	}
}

func (s *step) underWay() bool {
	for i := range s.status.Moves {
		if s.status.Moves[i].State == v1.MoveEvicted {
			return true
		}
	}
	return false
}

// windDown waits until the Pods that have left have nodes again, as long again as
// their turn might take.
func (s *step) windDown() {
	turn := present(s.Plan, s.status.Moves)
	if turn == noTurn {
		s.end(v1.PlanAborted, s.status.Reason, s.status.Message)
		return
	}
	for _, i := range s.open(turn) {
		seen := s.observe(&s.Plan.Spec.Moves[i])
		s.settle(i, &seen)
	}
	last := s.deadline(turn).Add(s.limit(turn))
	if !s.underWay() || !s.now.Before(last) {
		s.end(v1.PlanAborted, s.status.Reason, s.status.Message)
		return
	}
	s.lookAgainAfter(last.Sub(s.now))
}

// finish ends a plan all of whose Pods have been moved, when the task that room was
// made for has its nodes.
func (s *step) finish() {
	if s.Plan.Spec.Goal != v1.GoalPendingTask {
		s.end(v1.PlanDone, ReasonCompleted, fmt.Sprintf("%s moved", podCount(s.status.Moved)))
		return
	}
	if reason, message := s.needless(); reason != "" {
		s.end(v1.PlanDone, reason, message)
		return
	}
	if s.Plan.Spec.Abort {
		s.end(v1.PlanAborted, ReasonAbortRequested, "aborted when all Pods were moved, before the task had started")
		return
	}
	ref := s.Plan.Spec.For
	last := s.turnTime().Add(s.MoveTimeout)
	if !s.now.Before(last) {
		s.end(v1.PlanAborted, ReasonNotStarted, fmt.Sprintf("%s moved, but GPUTask %s/%s did not start within %v", podCount(s.status.Moved), ref.Namespace, ref.Name, s.MoveTimeout))
		return
	}
	s.status.Message = s.progress(noTurn)
	s.lookAgainAfter(last.Sub(s.now))
}

// skipOpen is for the moment when no Pod is on its way.
func (s *step) skipOpen() {
	for i := range s.status.Moves {
		if isOpen(s.status.Moves[i].State) {
			s.skip(i)
		}
	}
}

// end writes the last status. It comes after all moves have been counted, since
// nobody looks at a plan that has ended.
func (s *step) end(phase v1.MovePlanPhase, reason, message string) {
	if len(s.out.Count) > 0 {
		s.status = s.Plan.Status.DeepCopy()
		s.lookAgainAfter(waitCheck)
		return
	}
	for i := range s.status.Moves {
		if s.status.Moves[i].State == v1.MoveWaiting {
			s.skip(i)
		}
	}
	s.status.Phase, s.status.Reason, s.status.Message = phase, reason, trimWait(message)
	s.status.TurnTime = nil
	s.status.CompletionTime = s.time()
	s.status.Gain = s.gain()
}

// isLate reports whether a turn's time is over.
func (s *step) isLate(turn int32) bool { return !s.now.Before(s.deadline(turn)) }

func (s *step) deadline(turn int32) time.Time { return s.turnTime().Add(s.limit(turn)) }

func (s *step) limit(turn int32) time.Duration {
	return turnLimit(s.tasks, s.Plan, turn, s.MoveTimeout)
}

func (s *step) turnTime() time.Time {
	if s.status.TurnTime == nil {
		return s.now
	}
	return s.status.TurnTime.Time
}
