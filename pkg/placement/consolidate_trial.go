// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// trial is the result of moving a set of units.
type trial struct {
	set    []moved
	within *Domain
	cost   float64
	count  int // of Pods
	// done is true if all found a place; moves and plan are the solution.
	done  bool
	moves []Move
	plan  *Plan

	// needs are items that found no place, and items that may be in their way;
	// missing is how many of the gang's members found none.
	needs   []item
	missing int
	// stuck are the units that found no place.
	stuck []*unit
	// touched are the nodes that the trial has changed, near the evictions there.
	touched map[*node]bool
	near    []nearby
}

// item is a Pod that needs a place.
type item struct {
	request *Request
	within  *Domain
	// unit is nil for members of the gang.
	unit  *unit
	index int // in unit.pods, or the role
	depth int
}

// nearby is the candidate evictions on the nodes that a trial has changed.
type nearby struct {
	need item
	list []eviction
}

// try tries a set, and restores the cluster.
func (s *searcher) try(set []moved, within *Domain) *trial {
	t := &trial{set: set, within: within, touched: map[*node]bool{}}
	for _, mover := range set {
		t.cost += mover.unit.cost
		t.count += len(mover.unit.pods)
		mover.unit.out = true
		s.cluster.lift(mover.unit.pods)
		for i := range mover.unit.pods {
			t.touched[mover.unit.pods[i].node] = true
		}
	}
	s.attempt(t)
	for _, mover := range set {
		s.cluster.putBack(mover.unit.pods)
		mover.unit.out = false
	}
	return t
}

// attempt places the gang and all units of the trial, which are lifted.
func (s *searcher) attempt(t *trial) {
	p := &planner{cluster: s.cluster, gang: s.gang}
	if left := s.placeGang(p, t.within); len(left) > 0 {
		for _, d := range left {
			t.missing += d.count
		}
		for _, mover := range t.set {
			t.stuck = append(t.stuck, mover.unit)
		}
		s.obstacles(t, p, []item{{request: left[0].request, within: t.within, index: left[0].role}}, nil)
		return
	}
	places, left := s.sequence(t, p)
	if len(left) == 0 {
		t.plan = p.plan()
		p.giveBack(0)
		t.done = true
		return
	}
	together, without := s.together(left)
	if len(without) > 0 { // else only the order is the problem
		left = without
	}
	t.stuck = left
	var stuck []item
	for _, mover := range t.set {
		if slices.Contains(left, mover.unit) {
			stuck = append(stuck, itemsOf(mover, s.cluster.root)...)
		}
	}
	slices.SortStableFunc(stuck, harderItem)
	s.obstacles(t, p, stuck, append(places, together...))
	s.rearrange(t)
}

// together places lifted units as if they could all move at once.
func (s *searcher) together(units []*unit) (done []placedUnit, left []*unit) {
	for _, u := range units {
		if places, ok := s.placeUnit(u); ok {
			done = append(done, placedUnit{unit: u, places: places})
		} else {
			left = append(left, u)
		}
	}
	return done, left
}

// placeGang places the gang's members within a domain, in the order of roles
// that leaves the fewest without a place.
func (s *searcher) placeGang(p *planner, within *Domain) (left []demand) {
	defer s.cluster.except(s.gang.Except)()
	list := orders(s.cluster.demands(s.gang), within)
	best, fewest := 0, -1
	for i, order := range list {
		left = p.fill(within, order)
		count := 0
		for _, d := range left {
			count += d.count
		}
		if count == 0 {
			return nil
		}
		if fewest < 0 || count < fewest {
			best, fewest = i, count
		}
		p.giveBack(0)
	}
	return p.fill(within, list[best])
}

// swapCards gives the gang, which comes last, cards that lifted units will leave in
// exchange for cards that are free already: the units may need those first. Cards are
// only swapped for equivalent ones. It reports whether any was.
func (s *searcher) swapCards(units []*unit, p *planner) (swapped bool) {
	for i := range p.taken {
		use, n := &p.taken[i].member.Use, p.taken[i].node
		if use.Percent < Card {
			continue
		}
		s.cluster.give(n, use)
		use.GPUs = slices.Clone(use.GPUs)
		for at, gpu := range use.GPUs {
			if n.heldBy(units, gpu) {
				continue
			}
			other := slices.IndexFunc(n.order, func(other int) bool {
				return !slices.Contains(use.GPUs, other) && n.alike(gpu, other) && n.heldBy(units, other)
			})
			if other >= 0 {
				use.GPUs[at] = n.order[other]
				swapped = true
			}
		}
		slices.Sort(use.GPUs)
		s.cluster.take(n, use)
	}
	return swapped
}

// alike reports whether a free card is equivalent to another one.
func (n *node) alike(gpu, free int) bool {
	a, b := &n.GPUs[gpu], &n.GPUs[free]
	return n.free[free] == Card && !b.Broken && a.Memory == b.Memory && a.Group == b.Group
}

// heldBy reports whether one of the units holds the card until it moves.
func (n *node) heldBy(units []*unit, gpu int) bool {
	return slices.ContainsFunc(units, func(u *unit) bool {
		return slices.ContainsFunc(u.pods, func(r resident) bool { return r.node == n && slices.Contains(r.pod.GPUs, gpu) })
	})
}

// placedUnit is a unit and the places of its Pods.
type placedUnit struct {
	unit   *unit
	places []Place
}

// sequence moves the trial's units one after the other, each to what is free by then,
// while the gang keeps its places. left are the units that could not move.
func (s *searcher) sequence(t *trial, p *planner) (done []placedUnit, left []*unit) {
	for _, mover := range t.set {
		left = append(left, mover.unit)
	}
	slices.SortStableFunc(left, func(a, b *unit) int { return b.percent() - a.percent() })
	for again := true; again && len(left) > 0; {
		s.swapCards(left, p)
		var next []placedUnit
		next, left = s.advance(left)
		done = append(done, next...)
		again = len(next) > 0
	}
	if len(left) == 0 {
		t.moves = movesOf(done)
		s.unplace(done)
	}
	return done, left
}

// advance moves those of the lifted units that can move while the others are at their old
// places. The hardest goes first: what it leaves may be what the next one needs.
func (s *searcher) advance(units []*unit) (done []placedUnit, left []*unit) {
	left = slices.Clone(units)
	for _, u := range left {
		s.cluster.putBack(u.pods)
	}
	for i := 0; i < len(left); {
		u := left[i]
		s.cluster.lift(u.pods)
		places, ok := s.placeUnit(u)
		if !ok {
			s.cluster.putBack(u.pods)
			i++
			continue
		}
		done = append(done, placedUnit{unit: u, places: places})
		left = slices.Delete(left, i, i+1)
		i = 0
	}
	for _, u := range left {
		s.cluster.lift(u.pods)
	}
	return done, left
}

// unplace releases the places of units.
func (s *searcher) unplace(done []placedUnit) {
	for _, placed := range done {
		for i := range placed.places {
			s.cluster.give(s.cluster.nodes[placed.places[i].Node], &placed.places[i].Use)
		}
	}
}

// placeUnit places all Pods of a unit where the policy prefers, or none.
func (s *searcher) placeUnit(u *unit) (places []Place, ok bool) {
	for _, d := range s.cluster.root.at(u.level) {
		if places, ok = s.placeWithin(u, d); ok {
			return places, true
		}
	}
	return nil, false
}

func (s *searcher) placeWithin(u *unit, within *Domain) (places []Place, ok bool) {
	for i := range u.pods {
		place, found := s.findElsewhere(u, i, within)
		if !found {
			s.unplace([]placedUnit{{unit: u, places: places}})
			return nil, false
		}
		s.cluster.take(s.cluster.nodes[place.Node], &place.Use)
		places = append(places, place)
	}
	return places, true
}

// findElsewhere finds a new place for a Pod of a unit. A Pod without a gang may not return to its
// old place: it would not have to be in the set.
func (s *searcher) findElsewhere(u *unit, index int, within *Domain) (place Place, found bool) {
	pod := &u.pods[index]
	place, found = s.cluster.Find(pod.request, within)
	if !found || u.group != "" || !place.isOf(pod.pod) {
		return place, found
	}
	for _, other := range s.cluster.spots(pod.request, within, maxSpots) {
		if place := other.place(pod.request); !place.isOf(pod.pod) {
			return place, true
		}
	}
	return Place{}, false
}

// isOf reports whether a place is where a Pod runs.
func (p *Place) isOf(pod *Pod) bool { return p.Node == pod.Node && sameCards(&p.Use, &pod.Use) }

// movesOf returns the moves that bring units to their places. A unit all of whose Pods
// return to their old places does not move.
func movesOf(done []placedUnit) []Move {
	var moves []Move
	for _, placed := range done {
		from := len(moves)
		same := true
		for i := range placed.unit.pods {
			pod := placed.unit.pods[i].pod
			to := placed.places[i]
			same = same && to.isOf(pod)
			moves = append(moves, Move{
				Pod: pod.Name, Group: placed.unit.group, From: Place{Node: pod.Node, Use: pod.Use}, To: to, Cost: placed.unit.pods[i].cost,
			})
		}
		if same {
			moves = moves[:from]
		}
	}
	return moves
}

func itemsOf(mover moved, within *Domain) []item {
	items := make([]item, 0, len(mover.unit.pods))
	for i := range mover.unit.pods {
		items = append(items, item{request: mover.unit.pods[i].request, within: within, unit: mover.unit, index: i, depth: mover.depth})
	}
	return items
}

func harderItem(a, b item) int {
	return harder(demand{request: a.request}, demand{request: b.request})
}
