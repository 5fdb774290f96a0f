// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"strings"
)

// maxSteps bounds how many members a backtracking search places.
const maxSteps = 50_000

// backtrack looks for places when placing the members one by one where they fit best has
// failed, and a Checker's refusals depended on the members placed before: with other
// places for those, the rest may be accepted. It tries the roles and the nodes of each
// member in turn, the best first, and steps back where it gets stuck (depth-first search).
// What matters for the rest is which members are where, not the order in which they came,
// so that each such set is tried once.
func (p *planner) backtrack(start *Domain, demands []demand) bool {
	scopes := []*Domain{start}
	if p.gang.Required && p.gang.Level > start.Level {
		scopes = p.sufficient(start, p.gang.Level, demands)
	}
	for _, scope := range scopes {
		s := &backtracking{planner: p, within: scope, left: slices.Clone(demands), failed: map[string]bool{}, steps: maxSteps}
		if s.run() {
			return true
		}
	}
	return false
}

// backtracking is a search within one domain.
type backtracking struct {
	*planner
	within *Domain
	// left are the members to be placed.
	left []demand
	// failed are the sets of placed members that led to no plan, by their key.
	failed map[string]bool
	steps  int
}

// run places the members that are left, or none of them.
func (s *backtracking) run() bool {
	if !slices.ContainsFunc(s.left, func(d demand) bool { return d.count > 0 }) {
		return true
	}
	key := s.key()
	if s.failed[key] {
		return false
	}
	for i := range s.left {
		if s.left[i].count > 0 && s.tryRole(&s.left[i]) {
			return true
		}
	}
	s.failed[key] = true
	return false
}

// tryRole places one member of a role on each node in turn, and then the rest.
func (s *backtracking) tryRole(d *demand) bool {
	before := len(s.taken)
	s.turnTo(d.role)
	s.show(func(h hidden) bool { return h.judgement != NeverAccepted }) // all are asked
	for _, ranked := range s.cluster.Rank(d.request, s.within) {
		if s.steps--; s.steps < 0 || s.exhausted() {
			return false
		}
		n := s.cluster.nodes[ranked.Node]
		if n.hiddenIn != nil || !s.accepts(d.role, n) {
			continue
		}
		s.put(d.role, d.request, n, ranked.Cost)
		d.count--
		if s.run() {
			return true
		}
		d.count++
		s.giveBack(before)
		s.turnTo(d.role)
	}
	return false
}

// key identifies the set of placed members.
func (s *backtracking) key() string {
	list := make([]string, len(s.taken))
	for i := range s.taken {
		list[i] = fmt.Sprintf("%d %s", s.taken[i].member.Role, s.taken[i].node.Name)
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}
