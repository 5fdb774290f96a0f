// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const (
	// Everybody is the priority for which all tasks may be moved that may be moved at
	// all: moves for capacity are for nobody in particular.
	Everybody int32 = math.MaxInt32
	// maxMoves is how many moves, and places, a MovePlan can have.
	maxMoves = 1024
	// maxReplans is how often another plan is tried for one that breaks a budget.
	maxReplans = 8
)

// Rules say what may move for somebody of that priority, and at which cost in
// GPU-seconds: tasks of the same priority and below.
func (p *Planner) Rules(priority int32) placement.MoveRules {
	return p.rules(priority, nil)
}

// rules leaves the spared units where they are.
func (p *Planner) rules(priority int32, spared map[*clusterview.Unit]bool) placement.MoveRules {
	limit := maxMoves
	if p.Options.MaxMoves > 0 {
		limit = min(limit, p.Options.MaxMoves)
	}
	left, limited := p.Ledger.MovesLeft(&p.Options)
	if limited {
		limit = min(limit, left)
	}
	return placement.MoveRules{
		Cost: func(pod *placement.Pod) (float64, bool) {
			m := p.Member(pod.Name)
			if m == nil || limit == 0 || spared[m.Unit] || m.Unit.Priority() > priority || p.reasonToStay(m.Unit) != "" {
				return 0, false
			}
			return float64(p.cost(m)), true
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
		PerMove:  float64(max(0, p.Options.MoveCost)),
	}
}

// levelOf is the level of domains that a gang stays together in: the one that it has
// to be in one of, or is in one of as it prefers.
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

// MakeRoom finds moves that let a gang of that priority fit, within what is left of
// the budgets. found is false if there are none; no moves are needed if it fits as it
// is.
func (p *Planner) MakeRoom(gang *snapshot.Members[*corev1.Pod], priority int32) (result *placement.Consolidation, found bool, err error) {
	spared := map[*clusterview.Unit]bool{}
	for range maxReplans {
		result, found, err = p.consolidate(&gang.Gang, p.rules(priority, spared))
		if err != nil || !found {
			return nil, false, err
		}
		dearest := p.overspent(result.Moves)
		if dearest == nil {
			return result, true, nil
		}
		spared[dearest] = true
	}
	return nil, false, nil
}

// consolidate looks for the cheapest moves and, if there are none within the limit of
// their number, for the fewest.
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

// overspent returns the unit that loses the most work of a namespace of which the
// moves together lose more than is left of its budget; nil if none do.
func (p *Planner) overspent(moves []placement.Move) *clusterview.Unit {
	sums, dearest := map[string]int64{}, map[string]*clusterview.Unit{}
	for i := range moves {
		m := p.Member(moves[i].Pod)
		namespace := m.Pod.Namespace
		sums[namespace] += lost(m, p.Now)
		if known := dearest[namespace]; known == nil || p.lostBy(m.Unit) > p.lostBy(known) {
			dearest[namespace] = m.Unit
		}
	}
	var worst *clusterview.Unit
	for namespace, sum := range sums {
		left, limited := p.Ledger.GPUSecondsLeft(&p.Options, namespace)
		if limited && sum > left && (worst == nil || namespace < worst.Members[0].Pod.Namespace) {
			worst = dearest[namespace]
		}
	}
	return worst
}
