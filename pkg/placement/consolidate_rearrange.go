// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// The bounds of a rearrangement.
const (
	maxRearranged = 16  // Pods
	maxSpots      = 8   // places tried for each
	maxPlacements = 400 // in all
)

// rearranger places the gang and the units of a set together, with backtracking. It is
// for sets whose Pods are in each other's way if each takes the place that the policy
// prefers.
type rearranger struct {
	*searcher
	trial  *trial
	items  []item
	places []Place
	left   int // placements that may still be tried
}

// rearrange looks for a better arrangement of all Pods of a failed trial.
func (s *searcher) rearrange(t *trial) {
	r := &rearranger{searcher: s, trial: t, left: maxPlacements}
	for _, d := range s.cluster.demands(s.gang) {
		for range d.count {
			r.items = append(r.items, item{request: d.request, within: t.within, index: d.role})
		}
	}
	for _, mover := range t.set {
		r.items = append(r.items, itemsOf(mover, s.cluster.root)...)
	}
	if len(r.items) > maxRearranged {
		return
	}
	for _, needed := range r.items {
		if needed.within.Room(needed.request) == 0 {
			return // no arrangement helps
		}
	}
	slices.SortStableFunc(r.items, harderItem)
	r.places = make([]Place, len(r.items))
	r.place(0)
}

// place places the items from index on; ok is true if all have a place and the units can
// move there in some order.
func (r *rearranger) place(index int) (ok bool) {
	if index == len(r.items) {
		return r.finish()
	}
	current := &r.items[index]
	for _, spot := range r.cluster.spots(current.request, r.scope(index), maxSpots) {
		if r.left--; r.left < 0 {
			return false
		}
		n := spot.node
		if current.unit == nil && slices.Contains(r.gang.Except, n.Name) {
			continue
		}
		place := spot.place(current.request)
		r.cluster.take(n, &place.Use)
		r.places[index] = place
		ok = r.place(index + 1)
		r.cluster.give(n, &place.Use)
		if ok {
			return true
		}
	}
	return false
}

// scope returns the domain in which an item has to be: that of its gang's preceding Pods.
func (r *rearranger) scope(index int) *Domain {
	current := &r.items[index]
	if current.unit == nil || current.unit.level == 0 {
		return current.within
	}
	for i := range index {
		if r.items[i].unit == current.unit {
			if d := r.cluster.nodes[r.places[i].Node].domainAt(current.unit.level); d != nil {
				return d
			}
		}
	}
	return current.within
}

// finish finds an order of the moves, and stores the result in the trial.
func (r *rearranger) finish() bool {
	targets := map[*unit][]Place{}
	p := &planner{cluster: r.cluster, gang: r.gang}
	for i, placed := range r.items {
		if placed.unit == nil {
			p.taken = append(p.taken, taken{member: Member{Role: placed.index, Place: r.places[i]}, node: r.cluster.nodes[r.places[i].Node]})
			continue
		}
		if targets[placed.unit] == nil {
			targets[placed.unit] = make([]Place, len(placed.unit.pods))
		}
		targets[placed.unit][placed.index] = r.places[i]
	}
	if !r.keepTogether(targets) {
		return false
	}
	done, ok := r.order(targets)
	if !ok {
		return false
	}
	r.trial.done, r.trial.moves, r.trial.plan = true, movesOf(done), p.plan()
	return true
}

// keepTogether reports whether all gangs that have to be in one domain are.
func (r *rearranger) keepTogether(targets map[*unit][]Place) bool {
	for u, places := range targets {
		if u.level == 0 {
			continue
		}
		first := r.cluster.nodes[places[0].Node].domainAt(u.level)
		for i := range places {
			if d := r.cluster.nodes[places[i].Node].domainAt(u.level); d == nil || d != first {
				return false
			}
		}
	}
	return true
}

// order finds an order in which units can move to their places. It matters: an early move
// may take room that another one still needs, though all fit in the end.
func (r *rearranger) order(targets map[*unit][]Place) (done []placedUnit, ok bool) {
	// All are at their new places; put them back to find the order.
	for i := range r.items {
		r.cluster.give(r.cluster.nodes[r.places[i].Node], &r.places[i].Use)
	}
	for _, mover := range r.trial.set {
		r.cluster.putBack(mover.unit.pods)
	}
	o := orderer{rearranger: r, targets: targets, dead: map[uint32]bool{}}
	ok = o.next(0)
	for _, mover := range r.trial.set {
		r.cluster.lift(mover.unit.pods)
	}
	for i := range r.items {
		r.cluster.take(r.cluster.nodes[r.places[i].Node], &r.places[i].Use)
	}
	return o.done, ok
}

// orderer looks for an order, depth first. What can still be done depends only on which
// units have moved: dead has the sets of these, as bits, that are dead ends.
type orderer struct {
	*rearranger
	targets map[*unit][]Place
	dead    map[uint32]bool
	done    []placedUnit
}

// next moves the units that are not in a set, and then puts all of them back.
func (o *orderer) next(gone uint32) bool {
	set := o.trial.set
	if len(o.done) == len(set) {
		return true
	}
	if o.dead[gone] {
		return false
	}
	for i := range set {
		u := set[i].unit
		if gone>>i&1 == 1 {
			continue
		}
		o.cluster.lift(u.pods)
		ok := o.occupy(o.targets[u])
		if ok {
			o.done = append(o.done, placedUnit{unit: u, places: o.targets[u]})
			ok = o.next(gone | 1<<i)
			o.unplace([]placedUnit{{places: o.targets[u]}})
			if !ok {
				o.done = o.done[:len(o.done)-1]
			}
		}
		o.cluster.putBack(u.pods)
		if ok {
			return true
		}
	}
	o.dead[gone] = true
	return false
}

// occupy allocates all places, or none if one is not free.
func (r *rearranger) occupy(places []Place) bool {
	for i := range places {
		n := r.cluster.nodes[places[i].Node]
		if !n.hasFree(&places[i].Use) {
			r.unplace([]placedUnit{{places: places[:i]}})
			return false
		}
		r.cluster.take(n, &places[i].Use)
	}
	return true
}
