// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package moveplan

import (
	"cmp"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// queueCheck is how often an approved plan checks whether it is next.
const queueCheck = 5 * time.Second

func (s *step) proposed() {
	s.status.Phase = v1.PlanProposed
	s.initMoves()
	switch {
	case s.isToAbort():
		s.end(v1.PlanAborted, ReasonAbortRequested, "aborted before any Pod was moved")
	case s.Plan.Spec.Approved:
		s.status.Phase = v1.PlanApproved
		s.status.Message = "approved; begins as soon as no other plan is being carried out"
	case s.Stale != "":
		s.end(v1.PlanAborted, ReasonStale, s.Stale)
	default:
		s.status.Message = "waits for approval: kubectl gputask plan approve " + s.Plan.Name
	}
}

// initMoves initializes the status of each move.
func (s *step) initMoves() {
	s.status.Total = int32(len(s.Plan.Spec.Moves)) //nolint:gosec // at most 1024
	if len(s.status.Moves) == len(s.Plan.Spec.Moves) {
		return
	}
	s.status.Moves = make([]v1.MoveStatus, len(s.Plan.Spec.Moves))
	for i := range s.status.Moves {
		s.status.Moves[i].State = v1.MoveWaiting
	}
}

func (s *step) approved() error {
	s.initMoves()
	if s.isToAbort() {
		s.end(v1.PlanAborted, ReasonAbortRequested, "aborted before any Pod was moved")
		return nil
	}
	if !s.isNext() {
		s.requeueAfter(queueCheck)
		return nil
	}
	if reason, message := s.unneeded(); reason != "" {
		s.end(v1.PlanDone, reason, message)
		return nil
	}
	switch {
	case s.Drift == nil:
		s.out.CheckDrift = s.rest()
		return nil
	case s.Drift.Err != nil:
		return s.Drift.Err
	case s.Drift.Why != "":
		s.end(v1.PlanAborted, ReasonDrifted, s.Drift.Why)
		return nil
	}
	s.status.Phase = v1.PlanExecuting
	s.status.StartTime, s.status.TurnTime = s.time(), s.time()
	s.status.Message = "reserving the places that are needed"
	return nil
}

// isNext reports whether no plan is being carried out and no older one is approved.
func (s *step) isNext() bool {
	for _, other := range s.Objects.Plans {
		if other.UID == s.Plan.UID && other.Name == s.Plan.Name {
			continue
		}
		switch other.Status.Phase {
		case v1.PlanExecuting:
			return false
		case v1.PlanApproved:
			if older(other, s.Plan) {
				return false
			}
		case v1.PlanProposed, v1.PlanDone, v1.PlanAborted:
		}
	}
	return true
}

func older(a, b *v1.MovePlan) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}
