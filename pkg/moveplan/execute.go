// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// noTurn is the current turn of a plan all of whose moves are over.
const noTurn = int32(-1)

// waitCheck is how often to check whether a turn may begin.
const waitCheck = time.Second

func (s *step) execute() error {
	s.initMoves()
	s.out.Count = s.uncounted()
	before := currentTurn(s.Plan, s.Plan.Status.Moves)
	s.updateMoves()
	if s.status.Reason != "" {
		s.windDown()
		return nil
	}
	if elsewhere := s.newlyElsewhere(); elsewhere != "" {
		s.stop(ReasonElsewhere, elsewhere)
		return nil
	}
	turn := currentTurn(s.Plan, s.status.Moves)
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
	case s.hasBegun(turn):
		s.continueTurn(turn)
		return nil
	default:
		return s.beginTurn(turn)
	}
}

// currentTurn returns the first turn with a move that is not over, noTurn if there is none.
func currentTurn(plan *v1.MovePlan, records []v1.MoveStatus) int32 {
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
			return fmt.Sprintf("Pod %s/%s ended up on node %s instead of %s", move.Task.Namespace, move.Pod, s.status.Moves[i].Node, move.To.Node)
		}
	}
	return ""
}

// openMoves returns the indices of a turn's moves that are not over.
func (s *step) openMoves(turn int32) []int {
	return slices.DeleteFunc(s.movesOf(turn), func(i int) bool { return !isOpen(s.status.Moves[i].State) })
}

// hasBegun reports whether the intent to evict the Pods of a turn was recorded.
func (s *step) hasBegun(turn int32) bool {
	return slices.ContainsFunc(s.movesOf(turn), func(i int) bool { return s.status.Moves[i].EvictedAt != nil })
}

// beginTurn records the intent to carry out a turn unless something prevents it.
func (s *step) beginTurn(turn int32) error {
	if s.endEarly() {
		return nil
	}
	if node := s.missingNode(); node != "" {
		s.stop(ReasonDrifted, "node "+node+" is gone")
		return nil
	}
	indices := s.openMoves(turn)
	if wait, reason := s.obstacle(indices); wait != "" {
		if s.isLate(turn) {
			s.stop(reason, wait)
			return nil
		}
		if reason == ReasonForbidden { // other obstacles last only moments
			s.status.Message = fmt.Sprintf("turn %d of %d waits: %s", turn+1, turns(s.Plan), wait)
		}
		s.requeueAfter(waitCheck)
		return nil
	}
	if s.awaitCheckpoints(turn, indices) {
		if s.isLate(turn) {
			s.stop(ReasonTimedOut, "its Pods could not be asked to save their work")
		}
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

// obstacle returns what a turn must wait for before it begins; "" if nothing.
func (s *step) obstacle(indices []int) (what, reason string) {
	if missing := s.unreserved(); missing != "" {
		return missing, ReasonTimedOut
	}
	var pods []*corev1.Pod
	for _, i := range indices {
		pods = append(pods, s.observe(&s.Plan.Spec.Moves[i]).before)
	}
	return disruption.NewBudgets(s.Objects.Budgets).Forbids(pods), ReasonForbidden
}

// endEarly ends a plan between two turns if that was requested, or the rest is no longer
// needed.
func (s *step) endEarly() bool {
	if s.isToAbort() {
		s.stop(ReasonAbortRequested, fmt.Sprintf("aborted after %d of %d Pods were moved", s.status.Moved, s.status.Total))
		return true
	}
	if reason, message := s.unneeded(); reason != "" {
		s.skipOpen()
		s.end(v1.PlanDone, reason, message)
		return true
	}
	return false
}

// continueTurn evicts the Pods of a turn that has begun and waits until they have arrived.
func (s *step) continueTurn(turn int32) {
	indices := s.openMoves(turn)
	noneLeft := true
	for _, i := range indices {
		seen := s.observe(&s.Plan.Spec.Moves[i])
		noneLeft = noneLeft && !s.hasLeft(&seen, &s.Plan.Spec.Moves[i])
	}
	if noneLeft && len(indices) == len(s.movesOf(turn)) && s.endEarly() {
		return
	}
	if s.isLate(turn) {
		s.stop(s.timeoutReason(indices))
		return
	}
	if lost := lostPlace(s.Objects.Nodes, s.tasks, s.Plan, turn); lost != "" {
		s.stop(ReasonDrifted, lost)
		return
	}
	for _, i := range indices {
		move := &s.Plan.Spec.Moves[i]
		seen := s.observe(move)
		if s.hasLeft(&seen, move) {
			continue
		}
		if wait := s.retryAfter(move); wait > 0 {
			s.requeueAfter(wait)
			continue
		}
		s.out.Evict = append(s.out.Evict, seen.before)
		s.requeueAfter(waitCheck)
	}
	s.requeueAfter(s.deadline(turn).Sub(s.now))
}

// movesOf returns the indices of a turn's moves.
func (s *step) movesOf(turn int32) []int {
	var indices []int
	for i := range s.Plan.Spec.Moves {
		if s.Plan.Spec.Moves[i].Turn == turn {
			indices = append(indices, i)
		}
	}
	return indices
}

// retryAfter returns the backoff before a rejected eviction is retried: the longer the turn
// has lasted, the longer.
func (s *step) retryAfter(move *v1.Move) time.Duration {
	try, tried := s.Tries[move.PodUID]
	if !tried {
		return 0
	}
	pause := min(max(try.At.Sub(s.turnTime())/2, time.Second), 15*time.Second)
	return max(try.At.Add(pause).Sub(s.now), 0)
}

// timeoutReason returns what a turn has waited for in vain.
func (s *step) timeoutReason(indices []int) (reason, message string) {
	for _, i := range indices {
		move := &s.Plan.Spec.Moves[i]
		seen := s.observe(move)
		pod := move.Task.Namespace + "/" + move.Pod
		switch {
		case !s.hasLeft(&seen, move) && s.Tries[move.PodUID].Refusal != "":
			return ReasonForbidden, fmt.Sprintf("Pod %s could not be evicted in time: %s", pod, s.Tries[move.PodUID].Refusal)
		case !s.hasLeft(&seen, move):
			return ReasonForbidden, fmt.Sprintf("Pod %s could not be evicted in time", pod)
		case seen.before != nil:
			return ReasonTimedOut, fmt.Sprintf("Pod %s was evicted and did not terminate in time", pod)
		case seen.after == nil:
			return ReasonTimedOut, fmt.Sprintf("Pod %s was evicted and was not recreated in time", pod)
		case seen.after.Spec.NodeName == "":
			return ReasonTimedOut, fmt.Sprintf("Pod %s was evicted and found no node in time", pod)
		}
	}
	return ReasonTimedOut, "the Pods that were evicted did not run again in time"
}

// stop begins to end a plan that can't continue. It ends at once if no Pod is being moved.
func (s *step) stop(reason, message string) {
	late := s.isLate(currentTurn(s.Plan, s.status.Moves))
	for i := range s.status.Moves {
		move, record := &s.Plan.Spec.Moves[i], &s.status.Moves[i]
		seen := s.observe(move)
		switch {
		case record.State == v1.MoveWaiting, record.State == v1.MoveEvicted && !s.hasLeft(&seen, move):
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

// settle records a Pod as moved if its replacement has a node, whether it runs there or
// not.
func (s *step) settle(i int, seen *observedMove) {
	if seen.before == nil && seen.after != nil && seen.after.Spec.NodeName != "" {
		s.status.Moves[i].State, s.status.Moves[i].Node = v1.MoveMoved, seen.after.Spec.NodeName
		s.status.Moved++
	}
}

func (s *step) underWay() bool {
	return slices.ContainsFunc(s.status.Moves, func(record v1.MoveStatus) bool { return record.State == v1.MoveEvicted })
}

// windDown waits until the evicted Pods have nodes again, for at most twice the time limit
// of their turn.
func (s *step) windDown() {
	turn := currentTurn(s.Plan, s.status.Moves)
	if turn == noTurn {
		s.end(v1.PlanAborted, s.status.Reason, s.status.Message)
		return
	}
	for _, i := range s.openMoves(turn) {
		seen := s.observe(&s.Plan.Spec.Moves[i])
		s.settle(i, &seen)
	}
	last := s.deadline(turn).Add(s.limit(turn))
	if !s.underWay() || !s.now.Before(last) {
		s.end(v1.PlanAborted, s.status.Reason, s.status.Message)
		return
	}
	s.requeueAfter(last.Sub(s.now))
}

// finish ends a plan all of whose moves are over, once the task that room was made for has
// its nodes.
func (s *step) finish() {
	if s.Plan.Spec.Goal != v1.GoalPendingTask {
		s.end(v1.PlanDone, ReasonCompleted, fmt.Sprintf("%s moved", plural.Count(s.status.Moved, "Pod")))
		return
	}
	if reason, message := s.unneeded(); reason != "" {
		s.end(v1.PlanDone, reason, message)
		return
	}
	if s.isToAbort() {
		s.end(v1.PlanAborted, ReasonAbortRequested, "aborted when all Pods were moved, before the task had started")
		return
	}
	ref := s.Plan.Spec.For
	last := s.turnTime().Add(s.MoveTimeout)
	if !s.now.Before(last) {
		s.end(v1.PlanAborted, ReasonNotStarted, fmt.Sprintf("%s moved, but GPUTask %s/%s did not start within %v", plural.Count(s.status.Moved, "Pod"), ref.Namespace, ref.Name, s.MoveTimeout))
		return
	}
	s.status.Message = s.progress(noTurn)
	s.requeueAfter(last.Sub(s.now))
}

// skipOpen skips all open moves. It must not be called while a Pod is being moved.
func (s *step) skipOpen() {
	for i := range s.status.Moves {
		if isOpen(s.status.Moves[i].State) {
			s.skip(i)
		}
	}
}

// end sets the final status. That waits until all moves have been counted, since plans that
// have ended are ignored.
func (s *step) end(phase v1.MovePlanPhase, reason, message string) {
	if len(s.out.Count) > 0 {
		s.status = s.Plan.Status.DeepCopy()
		s.requeueAfter(waitCheck)
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

// isLate reports whether a turn's time limit has passed.
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
