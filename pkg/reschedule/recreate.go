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
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/plural"
)

// recreate returns a plan that stops one task after the other and lets the scheduler
// reschedule it, the least recently rescheduled ones first. A gang is one turn. A plan
// contains as many tasks as need no approval; a single task that costs more is a plan of
// its own.
func (p *Planner) recreate(report *Report) *v1.MovePlan {
	if report.Why = p.backoffReason(v1.GoalRecreate, nil); report.Why != "" {
		return nil
	}
	limit := p.Rules(AnyPriority).MaxMoves
	lost := map[string]int64{}
	cost := int64(0)
	var moves []v1.Move
	turn := int32(0)
	for _, u := range p.byLastMove() {
		namespace := u.Members[0].Pod.Namespace
		left, limited := p.Ledger.GPUSecondsLeft(&p.Options, namespace)
		unitLost := p.lostBy(u)
		if len(moves)+len(u.Members) > limit || (limited && lost[namespace]+unitLost > left) {
			continue
		}
		if cost += p.costOf(u); len(moves) > 0 && cost > p.Options.ApproveCost {
			break
		}
		lost[namespace] += unitLost
		for _, m := range u.Members {
			move := p.moveOf(m, v1.MovePlace{})
			move.Turn, move.Reason = turn, "is rescheduled wherever there is room"
			moves = append(moves, move)
		}
		turn++
	}
	if len(moves) == 0 {
		report.Why = "no task may be rescheduled now"
		return nil
	}
	return p.finish(&v1.MovePlan{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "recreate-"},
		Spec: v1.MovePlanSpec{
			Goal: v1.GoalRecreate, Moves: moves,
			Reason: fmt.Sprintf("%s rescheduled, one after the other: %s", plural.Count(int(turn), "task"), costText(moves)),
		},
	})
}

// byLastMove returns the units that may be moved, the least recently moved, or created,
// first.
func (p *Planner) byLastMove() []*clusterview.Unit {
	var list []*clusterview.Unit
	for _, u := range p.Units {
		if p.immovableReason(u) == "" {
			list = append(list, u)
		}
	}
	slices.SortStableFunc(list, func(a, b *clusterview.Unit) int {
		return cmp.Or(lastMove(a).Compare(lastMove(b)), cmp.Compare(a.Key, b.Key))
	})
	return list
}

// lastMove returns when a unit was last placed.
func lastMove(u *clusterview.Unit) (last time.Time) {
	for _, task := range u.Tasks {
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
