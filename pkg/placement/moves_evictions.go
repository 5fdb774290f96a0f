// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// eviction is a way to make room on a node: the units to evict.
type eviction struct {
	node *node
	// units are all needed: without any one of them there is no room.
	units []*unit
	cost  float64
	moves int
	// room is how many Pods of the request fit afterwards.
	room int
	// estimate is the cost plus the estimated cost of placing the units elsewhere.
	estimate float64
}

// The bounds of the enumeration for one node. They are rarely reached, as a node has
// few GPU Pods.
const (
	maxEvictions     = 24   // sets kept, the cheapest
	maxEvictionSteps = 4000 // steps of the search
)

// evictor enumerates the minimal sets of tenants of a node whose eviction makes room for
// a request, with branch and bound by cost.
type evictor struct {
	node    *node
	request *Request
	tenants []tenant
	// bundles are the tenants that are evicted together.
	bundles []bundle
	room    vacancy
	// held counts the chosen bundles that each tenant is in.
	held  []int
	cost  float64
	steps int
	found []eviction
}

// bundle is tenants that only make room together: those of a card that is needed whole.
type bundle struct {
	tenants []int
	cost    float64
}

// vacancy is what would be free on a node.
type vacancy struct {
	cpu, memory int64
	slots       int
	others      []int64
	free        []int32
}

// vacancy returns what is free on a node; free are its cards.
func (n *node) vacancy(free []int32) vacancy {
	return vacancy{cpu: n.cpu, memory: n.memory, slots: n.slots, others: slices.Clone(n.others), free: free}
}

// evictions returns the cheapest minimal sets of units to evict from a node to make room
// for a request, cheapest first; none if there is room already, or no way to make it.
func (t *tenancy) evictions(n *node, r *Request) []eviction {
	if n.fitEmpty(r) != Fits || n.fit(r) == Fits {
		return nil
	}
	e := &evictor{node: n, request: r, room: n.vacancy(slices.Clone(n.free))}
	for _, one := range t.on[n] {
		if one.unit.movable && !one.unit.out {
			e.tenants = append(e.tenants, one)
		}
	}
	e.held = make([]int, len(e.tenants))
	e.bundle(t)
	if !e.possible(0) {
		return nil
	}
	e.search(0, false)
	slices.SortStableFunc(e.found, func(a, b eviction) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.moves, b.moves))
	})
	return e.found
}

// bundle collects the bundles to choose from, cheapest first.
func (e *evictor) bundle(t *tenancy) {
	if e.request.GPUs > 0 {
		for gpu := range e.node.GPUs {
			e.add(e.of(t, gpu))
		}
	}
	scarce := !e.room.suffices(e.node, e.request)
	for i, one := range e.tenants {
		if scarce || (e.request.Share > 0 && one.holdsGPUs()) {
			e.add([]int{i})
		}
	}
	slices.SortStableFunc(e.bundles, func(a, b bundle) int { return cmp.Compare(a.cost, b.cost) })
}

// of returns the tenants of a card; none if one of them can't be evicted.
func (e *evictor) of(t *tenancy, gpu int) (tenants []int) {
	for _, one := range t.on[e.node] {
		if one.unit.out || !one.holds(gpu) {
			continue
		}
		at := slices.IndexFunc(e.tenants, func(other tenant) bool { return other.unit == one.unit })
		if at < 0 {
			return nil
		}
		tenants = append(tenants, at)
	}
	return tenants
}

func (e *evictor) add(tenants []int) {
	if len(tenants) == 0 || slices.ContainsFunc(e.bundles, func(b bundle) bool { return slices.Equal(b.tenants, tenants) }) {
		return
	}
	cost := 0.0
	for _, i := range tenants {
		cost += e.tenants[i].unit.cost
	}
	e.bundles = append(e.bundles, bundle{tenants: tenants, cost: cost})
}

func (t *tenant) holds(gpu int) bool {
	return slices.ContainsFunc(t.uses, func(use *Use) bool { return slices.Contains(use.GPUs, gpu) })
}

func (t *tenant) holdsGPUs() bool {
	return slices.ContainsFunc(t.uses, func(use *Use) bool { return len(use.GPUs) > 0 })
}

// search chooses from the bundles from an index on. skipped is true if the bundle before
// was not chosen.
func (e *evictor) search(from int, skipped bool) {
	e.steps++
	if e.steps > maxEvictionSteps {
		return
	}
	if len(e.found) == maxEvictions && e.cost >= e.worst().cost {
		return
	}
	if e.room.fits(e.node, e.request) {
		e.record()
		return
	}
	if from == len(e.bundles) {
		return
	}
	if !skipped || from == 0 || !e.alike(from-1, from) { // else it is equivalent to the set with the one before
		e.choose(from, 1)
		e.search(from+1, false)
		e.choose(from, -1)
	}
	if e.possible(from + 1) {
		e.search(from+1, true)
	}
}

// alike reports whether it makes no difference which of two bundles is evicted.
func (e *evictor) alike(a, b int) bool {
	x, y := e.bundles[a].tenants, e.bundles[b].tenants
	return e.node.layout.kind.uniform && len(x) == 1 && len(y) == 1 &&
		e.tenants[x[0]].unit.alike(e.tenants[y[0]].unit) && e.tenants[x[0]].unit.pods[0].request.Share == 0
}

// possible reports whether there is room if all bundles from an index on are evicted.
func (e *evictor) possible(from int) bool {
	for i := from; i < len(e.bundles); i++ {
		e.choose(i, 1)
	}
	fits := e.room.fits(e.node, e.request)
	for i := from; i < len(e.bundles); i++ {
		e.choose(i, -1)
	}
	return fits
}

// choose evicts a bundle (sign 1) or undoes that (-1).
func (e *evictor) choose(index, sign int) {
	for _, i := range e.bundles[index].tenants {
		before := e.held[i]
		e.held[i] += sign
		if before == 0 || e.held[i] == 0 {
			e.leave(i, sign)
		}
	}
}

// leave releases the resources of a tenant (sign 1) or allocates them again (-1).
func (e *evictor) leave(i, sign int) {
	e.cost += float64(sign) * e.tenants[i].unit.cost
	e.room.add(e.node, e.tenants[i].uses, sign)
}

// add adds the resources of Pods (sign 1) or subtracts them (-1).
func (v *vacancy) add(n *node, uses []*Use, sign int) {
	for _, use := range uses {
		v.cpu += int64(sign) * use.CPU
		v.memory += int64(sign) * use.Memory
		if !use.NoSlot {
			v.slots += sign
		}
		n.layout.kind.add(v.others, use.Others, sign)
		for _, gpu := range use.GPUs {
			if gpu < len(v.free) {
				v.free[gpu] += int32(sign * use.Percent) //nolint:gosec // a percentage
			}
		}
	}
}

// record keeps the chosen set, without the tenants that can stay.
func (e *evictor) record() {
	var kept []int // stay after all
	chosen := make([]int, 0, len(e.held))
	for i := range e.held {
		if e.held[i] > 0 {
			chosen = append(chosen, i)
		}
	}
	slices.SortStableFunc(chosen, func(a, b int) int { return -cmp.Compare(e.tenants[a].unit.cost, e.tenants[b].unit.cost) })
	one := eviction{node: e.node}
	for _, i := range chosen {
		e.leave(i, -1)
		if e.room.fits(e.node, e.request) {
			kept = append(kept, i)
			continue
		}
		e.leave(i, 1)
		one.units = append(one.units, e.tenants[i].unit)
		one.moves += len(e.tenants[i].unit.pods)
		one.cost += e.tenants[i].unit.cost
	}
	one.room = e.room.capacity(e.node, e.request)
	for _, i := range kept {
		e.leave(i, 1)
	}
	slices.SortFunc(one.units, func(a, b *unit) int { return cmp.Compare(a.index, b.index) })
	e.keep(&one)
}

// keep keeps a set if it is new and among the cheapest.
func (e *evictor) keep(one *eviction) {
	if slices.ContainsFunc(e.found, func(known eviction) bool { return slices.Equal(known.units, one.units) }) {
		return
	}
	if len(e.found) < maxEvictions {
		e.found = append(e.found, *one)
		return
	}
	if worst := e.worst(); one.cost < worst.cost {
		*worst = *one
	}
}

func (e *evictor) worst() *eviction {
	worst := 0
	for i := range e.found {
		if e.found[i].cost > e.found[worst].cost {
			worst = i
		}
	}
	return &e.found[worst]
}

// fits reports whether there is room for a request that fits the kind of node.
func (v *vacancy) fits(n *node, r *Request) bool {
	return v.suffices(n, r) && v.capacity(n, r) > 0
}

// suffices reports whether there is room for a request besides its GPUs.
func (v *vacancy) suffices(n *node, r *Request) bool {
	return v.slots >= 1 && v.cpu >= r.CPU && v.memory >= r.Memory && n.layout.kind.short(v.others, &slack{}, r.Others) == ""
}

// capacity returns how many Pods of a request fit on the GPUs and in the Pod slots.
func (v *vacancy) capacity(n *node, r *Request) int {
	if r.Percent() == 0 {
		return n.layout.kind.times(v.others, &slack{}, r.Others, v.slots)
	}
	wanted := Card
	if r.Share > 0 {
		wanted = r.Share
	}
	pieces := 0
	for gpu, free := range v.free {
		if !n.GPUs[gpu].Broken && n.GPUs[gpu].Memory >= r.GPUMemory && free > 0 {
			pieces += int(free) / wanted
		}
	}
	return min(v.slots, pieces/max(r.GPUs, 1))
}
