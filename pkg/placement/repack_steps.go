// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"slices"
)

// The bounds of a packing plan's search.
const (
	maxSwaps      = 16 // tried for each Pod
	maxSwapLooked = 256
)

// packer builds a packing plan. Its decisions are applied to the nodes until it is
// restored.
type packer struct {
	*searcher
	options *PackingOptions
	result  *Packing
	// free and cards count the GPUs of a domain: those of idle nodes, and all.
	free, cards map[*Domain]int
	// last is what nodes had free after the last accepted step.
	last map[*node]freeGPUs
	// done are the allocations and releases to undo.
	done []change
}

// change is an allocation on a node, or a release.
type change struct {
	node  *node
	use   Use
	taken bool
}

func (c *Cluster) packer(options *PackingOptions) *packer {
	p := &packer{
		searcher: c.searcher(&Gang{}, &options.MoveRules), options: options, result: &Packing{},
		free: map[*Domain]int{}, cards: map[*Domain]int{}, last: map[*node]freeGPUs{},
	}
	for _, n := range p.nodes {
		p.last[n] = n.freeGPUs()
		for d := n.domain; d != nil && d.Level > 0; d = d.parent {
			p.cards[d] += n.healthyGPUs()
			if n.idle() {
				p.free[d] += n.healthyGPUs()
			}
		}
	}
	return p
}

// take allocates resources on a node, to be undone later.
func (p *packer) take(n *node, use *Use) {
	p.cluster.take(n, use)
	p.done = append(p.done, change{node: n, use: *use, taken: true})
}

// give releases resources on a node, to be undone later.
func (p *packer) give(n *node, use *Use) {
	p.cluster.give(n, use)
	p.done = append(p.done, change{node: n, use: *use})
}

// undo undoes all changes from begin on.
func (p *packer) undo(begin int) {
	for _, undone := range slices.Backward(p.done[begin:]) {
		if undone.taken {
			p.cluster.give(undone.node, &undone.use)
		} else {
			p.cluster.take(undone.node, &undone.use)
		}
	}
	p.done = p.done[:begin]
}

// everything is more than any node has.
var everything = Use{CPU: math.MaxInt64 / 4}

// empty moves all Pods with GPUs away from a node.
func (p *packer) empty(n *node) bool {
	if p.used(n) > p.options.Threshold {
		return false
	}
	var units []*unit
	for i := range p.on[n] {
		if tenant := &p.on[n][i]; tenant.holdsGPUs() {
			units = append(units, tenant.unit)
		}
	}
	return p.step(units, func() func() {
		p.cluster.take(n, &everything)
		return func() { p.cluster.give(n, &everything) }
	})
}

// emptyCards moves the shares away from each little-used card of a node.
func (p *packer) emptyCards(n *node) {
	for gpu := range n.GPUs {
		free := int(n.free[gpu])
		if free <= 0 || free == Card || n.GPUs[gpu].Broken || 1-float64(free)/Card > p.options.Threshold {
			continue
		}
		var units []*unit
		for i := range p.on[n] {
			if tenant := &p.on[n][i]; tenant.holds(gpu) {
				units = append(units, tenant.unit)
			}
		}
		rest := Use{GPUs: []int{gpu}, Percent: Card}
		p.step(units, func() func() {
			p.cluster.take(n, &rest)
			return func() { p.cluster.give(n, &rest) }
		})
	}
}

// step moves units, one after the other, to the tightest places, and keeps the moves if
// they pay. closeDown blocks something for the units meanwhile.
func (p *packer) step(units []*unit, closeDown func() (open func())) bool {
	if len(units) == 0 || !p.mayMove(units) {
		return false
	}
	begin := len(p.done)
	open := closeDown()
	moves, ok := p.scatter(units)
	open()
	if ok && p.pays(begin, moves) {
		p.keep(units, moves)
		return true
	}
	p.undo(begin)
	return false
}

// mayMove reports whether all units may still be moved and the limits allow it.
func (p *packer) mayMove(units []*unit) bool {
	count, cost := len(p.result.Moves), p.result.Cost
	for _, u := range units {
		if !u.movable || u.out {
			return false
		}
		count += len(u.pods)
		cost += u.cost
	}
	return p.rules.allows(count, cost)
}

// scatter moves units to the tightest places, the hardest first.
func (p *packer) scatter(units []*unit) (done []placedUnit, ok bool) {
	units = slices.Clone(units)
	slices.SortStableFunc(units, func(a, b *unit) int { return b.percent() - a.percent() })
	for _, u := range units {
		p.lift([]*unit{u})
		places, ok := p.squeeze(u)
		if !ok {
			return nil, false
		}
		done = append(done, placedUnit{unit: u, places: places})
	}
	return done, true
}

// lift removes units from their nodes, to be undone later.
func (p *packer) lift(units []*unit) {
	for _, pod := range residents(units) {
		p.give(pod.node, &pod.pod.Use)
	}
}

// putBack puts lifted units back on their nodes, to be undone later.
func (p *packer) putBack(units []*unit) {
	for _, pod := range residents(units) {
		p.take(pod.node, &pod.pod.Use)
	}
}

// squeeze places a unit in the tightest places.
func (p *packer) squeeze(u *unit) (places []Place, ok bool) {
	for _, d := range p.cluster.root.at(u.level) {
		if places, ok = p.squeezeInto(u, d); ok {
			return places, true
		}
	}
	return nil, false
}

func (p *packer) squeezeInto(u *unit, within *Domain) (places []Place, ok bool) {
	begin := len(p.done)
	for i := range u.pods {
		request := u.pods[i].request
		spots := p.cluster.spots(request, within, 1)
		if len(spots) == 0 {
			p.undo(begin)
			return nil, false
		}
		place := spots[0].place(request)
		p.take(spots[0].node, &place.Use)
		places = append(places, place)
	}
	return places, true
}

// swap moves a Pod of a little-used node to the place of smaller ones, which move
// elsewhere, maybe to the node that it leaves.
func (p *packer) swap(n *node) bool {
	if p.used(n) > p.options.Threshold {
		return false
	}
	for i := range p.on[n] {
		tenant := &p.on[n][i]
		if len(tenant.unit.pods) > 1 || !tenant.holdsGPUs() || !p.mayMove([]*unit{tenant.unit}) {
			continue
		}
		if p.swapUnit(tenant.unit) {
			return true
		}
	}
	return false
}

func (p *packer) swapUnit(u *unit) bool {
	r := u.pods[0].request
	options := p.menu(need{r, p.cluster.root}, false).byCost
	tried := 0
	for i := range options[:min(maxSwapLooked, len(options))] {
		option := &options[i]
		if option.node == u.pods[0].node || size(option.units) >= u.percent() || option.node.fit(r) == Fits {
			continue
		}
		if tried++; tried > maxSwaps {
			return false
		}
		if p.swapFor(u, option) {
			return true
		}
	}
	return false
}

func size(units []*unit) int {
	sum := 0
	for _, u := range units {
		sum += u.percent()
	}
	return sum
}

// swapFor moves the units in the way of a unit, and then the unit. While they move, the
// unit holds both its new and its old place.
func (p *packer) swapFor(u *unit, way *eviction) bool {
	all := append(slices.Clone(way.units), u)
	if slices.Contains(way.units, u) || !p.mayMove(all) {
		return false
	}
	begin := len(p.done)
	p.lift(way.units)
	r := u.pods[0].request
	if way.node.fit(r) != Fits { // the node has changed since the menu was made
		p.undo(begin)
		return false
	}
	place := p.cluster.tightest(way.node, r)
	p.take(way.node, &place.Use)
	// Those in the way are put back, so that each moves while the others are
	// still there.
	p.putBack(way.units)
	done, ok := p.scatter(way.units)
	if ok {
		p.lift([]*unit{u})
		done = append(done, placedUnit{unit: u, places: []Place{place}})
	}
	if ok && p.pays(begin, done) {
		p.keep(all, done)
		return true
	}
	p.undo(begin)
	return false
}

// tightest returns the place for a request on a node, which must fit.
func (c *Cluster) tightest(n *node, r *Request) Place {
	best := spot{node: n, position: -1}
	for position, free := range n.state.free {
		if r.Share > 0 && n.state.sharesAt(r, position) && (best.position < 0 || free < n.state.free[best.position]) {
			best.position = position
		}
	}
	return best.place(r)
}

// keep makes a step part of the plan.
func (p *packer) keep(units []*unit, done []placedUnit) {
	moves := movesOf(done)
	for i := range moves {
		p.result.Cost += moves[i].Cost
	}
	p.result.Moves = append(p.result.Moves, moves...)
	for _, u := range units {
		u.movable = false // no Pod moves twice
		for i := range u.pods {
			n := u.pods[i].node
			p.on[n] = slices.DeleteFunc(p.on[n], func(t tenant) bool { return t.unit == u })
		}
	}
	for _, placed := range done {
		for i := range placed.places {
			n := p.cluster.nodes[placed.places[i].Node]
			p.on[n] = append(p.on[n], tenant{unit: placed.unit, uses: []*Use{&placed.places[i].Use}})
		}
	}
}
