// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// Consolidation is the moves that make room for a gang that fits nowhere.
type Consolidation struct {
	// Moves are in an order in which each can be carried out when its turn comes
	// (see Turns). None are needed if the gang fits as it is.
	Moves []Move
	// Cost is the sum of the costs of all moves.
	Cost float64
	// Plan is where the gang goes after that.
	Plan *Plan
}

// Consolidate finds a cheap set of moves of running Pods that lets a gang fit, without
// changing the cluster. found is false if it finds none within the limits of the rules.
//
// For gang members that do not fit it enumerates exactly, node by node, the minimal sets
// of Pods to move away to make room, as nodes run few GPU Pods. The moved Pods need a
// place themselves, for which further Pods may have to move. Sets are combined best first
// by their cost (A*, Hart, Nilsson and Raphael 1968), and a set counts only if its moves
// have an order in which every Pod moves to resources that are free by then. See
// searcher.
func (c *Cluster) Consolidate(g *Gang, rules MoveRules) (result *Consolidation, found bool, err error) {
	plan, fits, err := c.Plan(g)
	if err != nil {
		return nil, false, err
	}
	if fits {
		return &Consolidation{Plan: plan}, true, nil
	}
	s := c.searcher(g, &rules)
	best := s.search()
	if best == nil {
		return nil, false, nil
	}
	best = s.prune(best)
	return s.consolidation(best), true, nil
}

// consolidation returns the result of a trial. The gang's plan is the one that Plan finds
// after the moves, if any, so that later planning agrees with it.
func (s *searcher) consolidation(best *trial) *Consolidation {
	result := &Consolidation{Moves: best.moves}
	for i := range best.moves {
		result.Cost += best.moves[i].Cost
	}
	s.cluster.Try(func() bool {
		if err := s.cluster.Carry(best.moves); err != nil {
			return false // can't happen: every turn was tried
		}
		if plan, fits, err := s.cluster.Plan(s.gang); err == nil && fits {
			best.plan = plan
		}
		return false
	})
	result.Plan = best.plan
	return result
}

// prune leaves out units that turn out not to be needed, most costly first.
func (s *searcher) prune(best *trial) *trial {
	byCost := slices.Clone(best.set)
	slices.SortStableFunc(byCost, func(a, b moved) int { return cmp.Compare(b.unit.cost, a.unit.cost) })
	for _, evicted := range byCost {
		less := slices.DeleteFunc(slices.Clone(best.set), func(other moved) bool { return other.unit == evicted.unit })
		if t := s.try(less, best.within); t.done {
			best = t
		}
	}
	return best
}
