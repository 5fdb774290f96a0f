// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"container/heap"
	"slices"
)

// clearing makes room for a gang in a scope, member by member, always where the cost per
// additional member is lowest.
type clearing struct {
	*preemptor
	pool  *pool
	scope *Domain
	// menus caches the evictions on nodes that have not changed, by request.
	menus map[*Request]map[*node][]eviction
	// left is what the limits still allow.
	left   []int
	chosen []*unit
	cost   float64
	placed []change
	// blocked are units that the limits no longer allow to evict.
	blocked []*unit
	// stamps count the changes of each node.
	stamps map[*node]int
	ways   ways
}

// way is a node with its candidate evictions, the best first.
type way struct {
	node  *node
	list  []eviction
	stamp int
	// perMember is the cost of the first eviction for each member that fits then.
	perMember float64
}

// ways is a heap, cheapest way first.
type ways []way

func (w ways) Len() int { return len(w) }
func (w ways) Less(i, j int) bool {
	a, b := &w[i], &w[j]
	return cmp.Or(
		cmp.Compare(a.perMember, b.perMember), cmp.Compare(a.list[0].cost, b.list[0].cost),
		cmp.Compare(a.list[0].moves, b.list[0].moves), cmp.Compare(a.node.Name, b.node.Name),
	) < 0
}
func (w ways) Swap(i, j int)    { w[i], w[j] = w[j], w[i] }
func (w *ways) Push(pushed any) { *w = append(*w, pushed.(way)) } //nolint:forcetypeassert // only ways are pushed
func (w *ways) Pop() any {
	last := (*w)[len(*w)-1]
	*w = (*w)[:len(*w)-1]
	return last
}

// run chooses the units to evict, and restores the cluster.
func (w *clearing) run(order []demand) (ok bool) {
	defer w.restore()
	for _, d := range order {
		if !w.makeRoom(d) {
			return false
		}
	}
	return true
}

func (w *clearing) restore() {
	for _, held := range slices.Backward(w.placed) {
		w.cluster.give(held.node, &held.use)
	}
	w.cluster.putBack(residents(w.chosen))
	for _, u := range w.chosen {
		u.out = false
	}
	for _, u := range w.blocked {
		u.movable = true
	}
}

// makeRoom finds places for all members of a role.
func (w *clearing) makeRoom(d demand) bool {
	nodes := w.nodesOf(w.scope)
	for _, n := range nodes {
		w.fill(n, &d)
	}
	w.ways = w.ways[:0]
	if d.count == 0 {
		return true
	}
	for _, n := range nodes {
		w.push(n, w.menu(n, d.request), d.count)
	}
	for d.count > 0 {
		if w.ways.Len() == 0 {
			return false
		}
		next := heap.Pop(&w.ways).(way) //nolint:forcetypeassert // only ways are pushed
		list := w.allowed(next.list)
		switch {
		case next.stamp != w.stamps[next.node]: // stale: there is a newer one
		case len(list) == 0:
			w.push(next.node, w.evictions(next.node, d.request), d.count)
		case len(list) < len(next.list) || next.perMember < perMember(&list[0], d.count):
			w.push(next.node, list, d.count)
		case !w.take(&list[0], &d):
			return false
		}
	}
	return true
}

// perMember returns the cost of an eviction for each member that it makes room for.
func perMember(option *eviction, members int) float64 {
	return option.cost / float64(max(1, min(option.room, members)))
}

// push adds a way to make room on a node.
func (w *clearing) push(n *node, list []eviction, members int) {
	if list = w.allowed(list); len(list) > 0 {
		heap.Push(&w.ways, way{node: n, list: list, stamp: w.stamps[n], perMember: perMember(&list[0], members)})
	}
}

// allowed returns the evictions from the first on that the limits allow.
func (w *clearing) allowed(list []eviction) []eviction {
	for i := range list {
		if w.allows(&list[i]) {
			return list[i:]
		}
	}
	return nil
}

func (w *clearing) allows(option *eviction) bool {
	if len(w.left) == 0 {
		return true
	}
	left := slices.Clone(w.left)
	for _, u := range option.units {
		w.pool.deduct(u, left)
	}
	return len(left) == 0 || slices.Min(left) >= 0
}

// menu returns the candidate evictions on a node, from the cache if the node has not
// changed.
func (w *clearing) menu(n *node, r *Request) []eviction {
	if w.stamps[n] > 0 || len(w.blocked) > 0 {
		return w.evictions(n, r)
	}
	if w.menus[r] == nil {
		w.menus[r] = map[*node][]eviction{}
	}
	list, known := w.menus[r][n]
	if !known {
		list = w.pool.evictions(n, r)
		w.menus[r][n] = list
	}
	return list
}

// evictions finds the candidate evictions on a node in its current state.
func (w *clearing) evictions(n *node, r *Request) []eviction {
	for i := range w.pool.on[n] {
		u := w.pool.on[n][i].unit
		if u.movable && !u.out && !w.pool.withinLimits(w.pool.info[u.index].charges, w.left) {
			u.movable = false
			w.blocked = append(w.blocked, u)
		}
	}
	return w.pool.evictions(n, r)
}

// take evicts units and places members in the room that this makes. It fails if that
// costs more than the best proposal so far.
func (w *clearing) take(option *eviction, d *demand) bool {
	for _, u := range option.units {
		w.cost += w.pool.info[u.index].cost
		w.pool.deduct(u, w.left)
		u.out = true
		w.chosen = append(w.chosen, u)
	}
	gone := residents(option.units)
	w.cluster.lift(gone)
	if w.best != nil && w.cost > w.best.sum {
		return false
	}
	var again []*node
	for i := range gone {
		if n := gone[i].node; !slices.Contains(again, n) {
			again = append(again, n)
		}
	}
	for _, n := range again {
		if w.stamps[n]++; w.scope.contains(n) && d.count > 0 {
			w.fill(n, d)
			w.push(n, w.evictions(n, d.request), d.count)
		}
	}
	return true
}

// fill places as many members on a node as it can.
func (w *clearing) fill(n *node, d *demand) {
	for d.count > 0 && n.fit(d.request) == Fits {
		place := w.cluster.tightest(n, d.request)
		w.cluster.take(n, &place.Use)
		w.placed = append(w.placed, change{node: n, use: place.Use, taken: true})
		w.stamps[n]++
		d.count--
	}
}

// residents returns the Pods of units.
func residents(units []*unit) []resident {
	var list []resident
	for _, u := range units {
		list = append(list, u.pods...)
	}
	return list
}

// lift removes Pods from their nodes.
func (c *Cluster) lift(pods []resident) {
	for i := range pods {
		pods[i].node.give(&pods[i].pod.Use)
	}
	c.reindexAll(pods)
}

// putBack puts lifted Pods back on their nodes.
func (c *Cluster) putBack(pods []resident) {
	for i := range pods {
		pods[i].node.take(&pods[i].pod.Use)
	}
	c.reindexAll(pods)
}

// reindexAll updates the State of each node of some Pods once.
func (c *Cluster) reindexAll(pods []resident) {
	changed := make(map[*node]bool, min(len(pods), len(c.nodes)))
	for i := range pods {
		changed[pods[i].node] = true
	}
	for i := range pods {
		if n := pods[i].node; changed[n] {
			changed[n] = false
			c.reindex(n, n.state)
		}
	}
}
