// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// obstacles records what the trial failed at, and releases the places that were found:
// those of the gang and of some units. The first obstacle is the hardest item without a
// place. If other items are in its way, making room for these elsewhere is an
// alternative.
func (s *searcher) obstacles(t *trial, p *planner, stuck []item, done []placedUnit) {
	for i := range p.taken {
		t.touched[p.taken[i].node] = true
	}
	for _, placed := range done {
		for i := range placed.places {
			t.touched[s.cluster.nodes[placed.places[i].Node]] = true
		}
	}
	first := stuck[0]
	for _, candidate := range stuck {
		if candidate.within.Room(candidate.request) == 0 {
			first = candidate
			break
		}
	}
	t.needs = append(t.needs, first)
	s.nearby(t, first)
	s.unplace(done)
	others := s.placed(t, p, done)
	p.giveAll()
	others = slices.DeleteFunc(others, func(other located) bool { return other.node.fit(first.request) != Fits })
	p.takeAll()
	for _, other := range others {
		like := func(n nearby) bool { return n.need.request == other.request && n.need.depth <= other.depth }
		if other.unit != nil && len(t.set) <= maxRearranged && !slices.ContainsFunc(t.near, like) {
			s.nearby(t, other.item)
		}
	}
	p.giveBack(0)
	s.nearby(t, first)
	for _, other := range others {
		if !slices.ContainsFunc(t.needs, func(n item) bool { return n.request == other.request && n.within == other.within }) {
			t.needs = append(t.needs, other.item)
		}
	}
}

// located is an item that found a place, and its node.
type located struct {
	item
	node *node
}

// placed returns the items that found a place.
func (s *searcher) placed(t *trial, p *planner, done []placedUnit) []located {
	var list []located
	for i := range p.taken {
		member := &p.taken[i].member
		request := s.cluster.Request(s.gang.Roles[member.Role].Shape)
		list = append(list, located{item{request: request, within: t.within, index: member.Role}, p.taken[i].node})
	}
	for _, mover := range t.set {
		at := slices.IndexFunc(done, func(d placedUnit) bool { return d.unit == mover.unit })
		if at < 0 {
			continue
		}
		for i, placed := range itemsOf(mover, s.cluster.root) {
			list = append(list, located{placed, s.cluster.nodes[done[at].places[i].Node]})
		}
	}
	return list
}

// changed returns the nodes that the trial has changed, by name.
func (t *trial) changed() []*node {
	nodes := make([]*node, 0, len(t.touched))
	for n := range t.touched {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes
}

// nearby adds the candidate evictions on the nodes that the trial has changed, in their
// current state.
func (s *searcher) nearby(t *trial, n item) {
	var list []eviction
	for _, node := range t.changed() {
		if n.within.Level > 0 && node.domain.above(n.within.Level) != n.within {
			continue
		}
		list = append(list, s.evictions(node, n.request)...)
	}
	for i := range list {
		list[i].estimate = list[i].cost
	}
	slices.SortStableFunc(list, func(a, b eviction) int { return compareEvictions(&a, &b) })
	if len(list) > 0 {
		t.near = append(t.near, nearby{need: n, list: list})
	}
}
