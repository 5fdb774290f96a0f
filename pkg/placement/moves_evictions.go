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
	// chosen counts the chosen bundles that each tenant is in.
	chosen []int
	cost   float64
	steps  int
	found  []eviction
}

// bundle is tenants that only make room together: those of a card that is needed whole.
type bundle struct {
	tenants []int
	cost    float64
}

// evictions returns the cheapest minimal sets of units to evict from a node to make room
// for a request, cheapest first; none if there is room already, or no way to make it.
func (t *tenancy) evictions(n *node, r *Request) []eviction {
	if n.fitEmpty(r) != Fits || n.fit(r) == Fits {
		return nil
	}
	e := &evictor{node: n, request: r, room: n.vacancy(slices.Clone(n.free))}
	for _, tenant := range t.on[n] {
		if tenant.unit.movable && !tenant.unit.out {
			e.tenants = append(e.tenants, tenant)
		}
	}
	e.chosen = make([]int, len(e.tenants))
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
			e.addBundle(e.tenantsOf(t, gpu))
		}
	}
	scarce := !e.room.suffices(e.request)
	for i, tenant := range e.tenants {
		if scarce || (e.request.Share > 0 && tenant.holdsGPUs()) {
			e.addBundle([]int{i})
		}
	}
	slices.SortStableFunc(e.bundles, func(a, b bundle) int { return cmp.Compare(a.cost, b.cost) })
}

// tenantsOf returns the tenants of a card; none if one of them can't be evicted.
func (e *evictor) tenantsOf(t *tenancy, gpu int) (tenants []int) {
	for _, holder := range t.on[e.node] {
		if holder.unit.out || !holder.holds(gpu) {
			continue
		}
		at := slices.IndexFunc(e.tenants, func(other tenant) bool { return other.unit == holder.unit })
		if at < 0 {
			return nil
		}
		tenants = append(tenants, at)
	}
	return tenants
}

func (e *evictor) addBundle(tenants []int) {
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
	if e.room.fits(e.request) {
		e.record()
		return
	}
	if from == len(e.bundles) {
		return
	}
	if !skipped || from == 0 || !e.alike(from-1, from) { // else it is equivalent to the set with the one before
		e.choose(from)
		e.search(from+1, false)
		e.unchoose(from)
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
		e.choose(i)
	}
	fits := e.room.fits(e.request)
	for i := from; i < len(e.bundles); i++ {
		e.unchoose(i)
	}
	return fits
}

// choose evicts a bundle.
func (e *evictor) choose(index int) {
	for _, i := range e.bundles[index].tenants {
		if e.chosen[i]++; e.chosen[i] == 1 {
			e.free(i)
		}
	}
}

// unchoose undoes choose.
func (e *evictor) unchoose(index int) {
	for _, i := range e.bundles[index].tenants {
		if e.chosen[i]--; e.chosen[i] == 0 {
			e.hold(i)
		}
	}
}

// free releases the resources of a tenant.
func (e *evictor) free(i int) {
	e.cost += e.tenants[i].unit.cost
	for _, use := range e.tenants[i].uses {
		e.room.give(use)
	}
}

// hold allocates the resources of a tenant again.
func (e *evictor) hold(i int) {
	e.cost -= e.tenants[i].unit.cost
	for _, use := range e.tenants[i].uses {
		e.room.take(use)
	}
}

// record keeps the chosen set, without the tenants that can stay.
func (e *evictor) record() {
	var kept []int // stay after all
	chosen := make([]int, 0, len(e.chosen))
	for i := range e.chosen {
		if e.chosen[i] > 0 {
			chosen = append(chosen, i)
		}
	}
	slices.SortStableFunc(chosen, func(a, b int) int { return -cmp.Compare(e.tenants[a].unit.cost, e.tenants[b].unit.cost) })
	found := eviction{node: e.node}
	for _, i := range chosen {
		e.hold(i)
		if e.room.fits(e.request) {
			kept = append(kept, i)
			continue
		}
		e.free(i)
		found.units = append(found.units, e.tenants[i].unit)
		found.moves += len(e.tenants[i].unit.pods)
		found.cost += e.tenants[i].unit.cost
	}
	found.room = e.room.capacity(e.request)
	for _, i := range kept {
		e.free(i)
	}
	slices.SortFunc(found.units, func(a, b *unit) int { return cmp.Compare(a.index, b.index) })
	e.keep(&found)
}

// keep keeps a set if it is new and among the cheapest.
func (e *evictor) keep(found *eviction) {
	if slices.ContainsFunc(e.found, func(known eviction) bool { return slices.Equal(known.units, found.units) }) {
		return
	}
	if len(e.found) < maxEvictions {
		e.found = append(e.found, *found)
		return
	}
	if worst := e.worst(); found.cost < worst.cost {
		*worst = *found
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
