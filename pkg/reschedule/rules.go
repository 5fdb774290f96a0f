// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const (
	// AnyPriority is the priority for which every movable task may be moved: moves for
	// capacity are not for a particular task.
	AnyPriority int32 = math.MaxInt32
	// maxMoves is how many moves, and places, a MovePlan can have.
	maxMoves = 1024
	// maxReplans is how often to plan again after a plan that exceeds a budget.
	maxReplans = 8
)

// Rules returns which Pods may be moved for a task of that priority, and at which cost in
// GPU-seconds: those of tasks of the same priority and below.
func (p *Planner) Rules(priority int32) placement.MoveRules {
	return p.rules(priority, nil)
}

// rules is Rules without the excluded units.
func (p *Planner) rules(priority int32, excluded map[*clusterview.Unit]bool) placement.MoveRules {
	limit := p.movesLeft()
	return placement.MoveRules{
		Cost: func(pod *placement.Pod) (float64, bool) {
			m := p.Member(pod.Name)
			if m == nil || limit == 0 || excluded[m.Unit] || m.Unit.Priority() > priority || p.immovableReason(m.Unit) != "" {
				return 0, false
			}
			return float64(cost(m, p.Now)), true
		},
		Group: func(pod *placement.Pod) string {
			if m := p.Member(pod.Name); m != nil {
				return m.Unit.Group()
			}
			return ""
		},
		Shape: func(pod *placement.Pod) placement.Shape {
			if m := p.Member(pod.Name); m != nil {
				return m.Shape
			}
			return placement.Shape{}
		},
		Level:    p.levelOf,
		MaxMoves: max(1, limit),
		PerMove:  perMove,
	}
}

// movesLeft returns how many Pods a plan may move now.
func (p *Planner) movesLeft() int {
	limit := maxMoves
	if p.Options.MaxMoves > 0 {
		limit = min(limit, p.Options.MaxMoves)
	}
	if left, limited := p.Ledger.MovesLeft(&p.Options); limited {
		limit = min(limit, left)
	}
	return limit
}

// levelOf returns the level of domains within which a gang stays together: the one that it
// requires, or that it prefers and is in one domain of.
func (p *Planner) levelOf(group string) int {
	u := p.Unit(group)
	if u == nil || u.Gang == nil || u.Gang.Level == "" {
		return 0
	}
	level, err := p.Levels.Number(u.Gang.Level)
	if err != nil || (!u.Gang.Required && p.DomainOf(u, level) == "") {
		return 0
	}
	return level
}

// MakeRoom finds moves that let a gang of that priority in that namespace fit, within what is left
// of the budgets. found is false if there are none; no moves are needed if it fits already.
func (p *Planner) MakeRoom(gang *snapshot.Members[*corev1.Pod], priority int32, namespace string) (result *placement.Consolidation, found bool, err error) {
	excluded := map[*clusterview.Unit]bool{}
	for range maxReplans {
		result, found, err = p.consolidate(&gang.Gang, p.rules(priority, excluded))
		if err != nil || !found {
			return nil, false, err
		}
		costliest := p.costliestOverBudget(result.Moves, namespace)
		if costliest == nil {
			return result, true, nil
		}
		excluded[costliest] = true
	}
	return nil, false, nil
}

// consolidate finds the cheapest moves or, if these exceed the limit on their number, the
// fewest.
func (p *Planner) consolidate(gang *placement.Gang, rules placement.MoveRules) (result *placement.Consolidation, found bool, err error) {
	result, found, err = p.Cluster.Consolidate(gang, rules)
	if err != nil || found {
		return result, found, err
	}
	cost := rules.Cost
	rules.Cost = func(pod *placement.Pod) (float64, bool) {
		_, movable := cost(pod)
		return 0, movable
	}
	rules.PerMove = max(1, rules.PerMove)
	result, found, err = p.Cluster.Consolidate(gang, rules)
	if err != nil || !found {
		return nil, false, err
	}
	result.Cost = 0
	for i := range result.Moves {
		move := &result.Moves[i]
		move.Cost = float64(p.moveCost(p.Member(move.Pod)))
		result.Cost += move.Cost
	}
	return result, true, nil
}

// costliestOverBudget returns the unit that loses the most work of a namespace whose budget
// the moves together exceed; nil if they exceed none. That of the namespace which the moves are for,
// "" if there is none, is about the work of all others.
func (p *Planner) costliestOverBudget(moves []placement.Move, beneficiary string) *clusterview.Unit {
	own, others := map[string]*bill{}, &bill{}
	for i := range moves {
		m := p.Member(moves[i].Pod)
		namespace := m.Pod.Namespace
		if own[namespace] == nil {
			own[namespace] = &bill{}
		}
		p.charge(own[namespace], m)
		if beneficiary != "" && namespace != beneficiary {
			p.charge(others, m)
		}
	}
	if left, limited := p.Ledger.CausableGPUSeconds(&p.Options, beneficiary); limited && others.sum > left {
		return others.costliest
	}
	for _, namespace := range slices.Sorted(maps.Keys(own)) {
		if left, limited := p.Ledger.GPUSecondsLeft(&p.Options, namespace); limited && own[namespace].sum > left {
			return own[namespace].costliest
		}
	}
	return nil
}

// bill is the work that moves lose together, in GPU-seconds, and the unit that loses the most.
type bill struct {
	sum       int64
	costliest *clusterview.Unit
}

func (p *Planner) charge(b *bill, m *clusterview.Member) {
	b.sum += lost(m, p.Now)
	if b.costliest == nil || p.lostBy(m.Unit) > p.lostBy(b.costliest) {
		b.costliest = m.Unit
	}
}
