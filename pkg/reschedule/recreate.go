// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// recreate returns a plan that stops one task after the other and lets the scheduler
// reschedule it, those first that were not rescheduled for the longest time. A gang
// is one turn. A plan has as much as needs nobody's approval; a task that alone costs more
// is a plan of its own.
func (s *Scene) recreate(report *Report) *v1.MovePlan {
	if report.Why = s.holdsOff(v1.GoalRecreate, nil); report.Why != "" {
		return nil
	}
	limit := s.Rules(Everybody).MaxMoves
	lost := map[string]int64{}
	cost := int64(0)
	var moves []v1.Move
	turn := int32(0)
	for _, u := range s.byLastMove() {
		namespace := u.members[0].pod.Namespace
		left, limited := s.Ledger.GPUSecondsLeft(&s.Options, namespace)
		its := s.lostBy(u)
		if len(moves)+len(u.members) > limit || (limited && lost[namespace]+its > left) {
			continue
		}
		if cost += s.costOf(u); len(moves) > 0 && cost > s.Options.ApproveCost {
			break
		}
		lost[namespace] += its
		for _, m := range u.members {
			move := s.moveOf(m, v1.MovePlace{})
			move.Turn, move.Reason = turn, "is rescheduled wherever there is room"
			moves = append(moves, move)
		}
		turn++
	}
	if len(moves) == 0 {
		report.Why = "no task may be rescheduled now"
		return nil
	}
	return s.finish(&v1.MovePlan{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "recreate-"},
		Spec: v1.MovePlanSpec{
			Goal: v1.GoalRecreate, Moves: moves,
			Reason: fmt.Sprintf("%s rescheduled, one after the other: %s", counted(int(turn), "task"), loses(moves)),
		},
	})
}

// byLastMove returns the units that may be moved, those first whose last move, or
// creation, is the longest ago.
func (s *Scene) byLastMove() []*unit {
	var list []*unit
	for _, u := range s.units {
		if s.fixed(u) == "" {
			list = append(list, u)
		}
	}
	slices.SortStableFunc(list, func(a, b *unit) int { return cmp.Or(a.lastMove().Compare(b.lastMove()), cmp.Compare(a.key, b.key)) })
	return list
}

// lastMove is when a unit was placed for the last time.
func (u *unit) lastMove() (last time.Time) {
	for _, task := range u.tasks {
		at := task.CreationTimestamp.Time
		if task.Status.LastMove != nil {
			at = task.Status.LastMove.Time.Time
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}
