// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const (
	// Everybody is the priority for which all tasks may be moved that may be moved at
	// all: moves for capacity are for nobody in particular.
	Everybody int32 = math.MaxInt32
	// maxMoves is how many moves, and places, a MovePlan can have.
	maxMoves = 1024
	// maxReplans is how often a plan that breaks a budget is recreated.
	maxReplans = 8
)

// Rules say what may move for somebody of that priority, and at which cost in
// GPU-seconds: tasks of the same priority and below.
func (s *Scene) Rules(priority int32) placement.MoveRules {
	return s.rules(priority, nil)
}

// rules leaves the spared units where they are.
func (s *Scene) rules(priority int32, spared map[*unit]bool) placement.MoveRules {
	limit := maxMoves
	if s.Options.MaxMoves > 0 {
		limit = min(limit, s.Options.MaxMoves)
	}
	left, limited := s.Ledger.MovesLeft(&s.Options)
	if limited {
		limit = min(limit, left)
	}
	return placement.MoveRules{
		Cost: func(pod *placement.Pod) (float64, bool) {
			m := s.members[pod.Name]
			if m == nil || limit == 0 || spared[m.unit] || m.unit.priority() > priority || s.fixed(m.unit) != "" {
				return 0, false
			}
			return float64(s.cost(m)), true
		},
		Group: func(pod *placement.Pod) string {
			if m := s.members[pod.Name]; m != nil {
				return m.unit.together()
			}
			return ""
		},
		Shape: func(pod *placement.Pod) placement.Shape {
			if m := s.members[pod.Name]; m != nil {
				return m.shape
			}
			return placement.Shape{}
		},
		Level:    s.levelOf,
		MaxMoves: max(1, limit),
		PerMove:  float64(max(0, s.Options.MoveCost)),
	}
}

// levelOf is the level of domains that a gang stays together in: the one that it has
// to be in one of, or is in one of as it prefers.
func (s *Scene) levelOf(group string) int {
	u := s.byKey[group]
	if u == nil || u.gang == nil || u.gang.Level == "" {
		return 0
	}
	level, err := s.Levels.Number(u.gang.Level)
	if err != nil || (!u.gang.Required && s.domainOf(u, level) == "") {
		return 0
	}
	return level
}

// MakeRoom finds moves that let a gang of that priority fit, within what is left of
// the budgets. found is false if there are none; no moves are needed if it fits as it
// is.
func (s *Scene) MakeRoom(gang *snapshot.Members[*corev1.Pod], priority int32) (result *placement.Consolidation, found bool, err error) {
	spared := map[*unit]bool{}
	for range maxReplans {
		result, found, err = s.consolidate(&gang.Gang, s.rules(priority, spared))
		if err != nil || !found {
			return nil, false, err
		}
		dearest := s.overspent(result.Moves)
		if dearest == nil {
			return result, true, nil
		}
		spared[dearest] = true
	}
	return nil, false, nil
}

// consolidate looks for the cheapest moves and, if there are none within the limit of
// their number, for the fewest.
func (s *Scene) consolidate(gang *placement.Gang, rules placement.MoveRules) (result *placement.Consolidation, found bool, err error) {
	result, found, err = s.Cluster.Consolidate(gang, rules)
	if err != nil || found {
		return result, found, err
	}
	cost := rules.Cost
	rules.Cost = func(pod *placement.Pod) (float64, bool) {
		_, movable := cost(pod)
		return 0, movable
	}
	rules.PerMove = max(1, rules.PerMove)
	result, found, err = s.Cluster.Consolidate(gang, rules)
	if err != nil || !found {
		return nil, false, err
	}
	result.Cost = 0
	for i := range result.Moves {
		move := &result.Moves[i]
		move.Cost = float64(s.moveCost(s.members[move.Pod]))
		result.Cost += move.Cost
	}
	return result, true, nil
}

// overspent returns the unit that loses the most work of a namespace of which the
// moves together lose more than is left of its budget; nil if none do.
func (s *Scene) overspent(moves []placement.Move) *unit {
	lost, dearest := map[string]int64{}, map[string]*unit{}
	for i := range moves {
		m := s.members[moves[i].Pod]
		namespace := m.pod.Namespace
		lost[namespace] += s.lost(m)
		if known := dearest[namespace]; known == nil || s.lostBy(m.unit) > s.lostBy(known) {
			dearest[namespace] = m.unit
		}
	}
	var worst *unit
	for namespace, sum := range lost {
		left, limited := s.Ledger.GPUSecondsLeft(&s.Options, namespace)
		if limited && sum > left && (worst == nil || namespace < worst.members[0].pod.Namespace) {
			worst = dearest[namespace]
		}
	}
	return worst
}
