// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"math"
	"slices"
	"sort"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// moveOracle finds the cheapest moves for a gang by trying all sets of units, all
// their places, and all orders.
type moveOracle struct {
	*world
	gang    *placement.Gang
	ledgers []*ledger
	units   [][]int // indices of Pods
	steps   int
}

type moveOracleItem struct {
	shape placement.Shape
	unit  int // -1 for the gang
	pod   int
	node  int
	use   placement.Use
}

func newMoveOracle(w *world, gang *placement.Gang) *moveOracle {
	o := &moveOracle{world: w, gang: gang}
	for i := range w.nodes {
		o.ledgers = append(o.ledgers, newLedger(&w.nodes[i]))
	}
	groups := map[string]int{}
	for i := range w.pods {
		o.ledgers[o.nodeOf(i)].take(&w.pods[i].Use, 1)
		group := w.groups[w.pods[i].Name]
		if at, known := groups[group]; known && group != "" {
			o.units[at] = append(o.units[at], i)
			continue
		}
		groups[group] = len(o.units)
		o.units = append(o.units, []int{i})
	}
	return o
}

func (o *moveOracle) nodeOf(pod int) int {
	return slices.IndexFunc(o.nodes, func(n placement.Node) bool { return n.Name == o.pods[pod].Node })
}

// cheapest returns the lowest cost; infinite if there is no way.
func (o *moveOracle) cheapest() float64 {
	type set struct {
		bits int
		cost float64
	}
	var sets []set
next:
	for bits := range 1 << len(o.units) {
		cost := 0.0
		for i, unit := range o.units {
			if bits>>i&1 == 0 {
				continue
			}
			for _, pod := range unit {
				if o.fixed[o.pods[pod].Name] {
					continue next
				}
				cost += o.costs[o.pods[pod].Name]
			}
		}
		sets = append(sets, set{bits, cost})
	}
	sort.SliceStable(sets, func(i, j int) bool { return sets[i].cost < sets[j].cost })
	for _, one := range sets {
		if o.possible(one.bits) {
			return one.cost
		}
	}
	return math.Inf(1)
}

// possible reports whether the gang fits when a set of units moves.
func (o *moveOracle) possible(bits int) bool {
	var items []moveOracleItem
	for _, role := range o.gang.Roles {
		for range role.Min {
			items = append(items, moveOracleItem{shape: role.Shape, unit: -1})
		}
	}
	for i, unit := range o.units {
		if bits>>i&1 == 1 {
			for _, pod := range unit {
				items = append(items, moveOracleItem{shape: o.shapes[o.pods[pod].Name], unit: i, pod: pod})
			}
		}
	}
	sort.SliceStable(items, func(i, j int) bool { return items[i].shape.Percent() > items[j].shape.Percent() })
	o.lift(items, -1)
	defer o.lift(items, 1)
	return o.place(items, 0)
}

func (o *moveOracle) lift(items []moveOracleItem, sign int) {
	for i := range items {
		if items[i].unit >= 0 {
			o.ledgers[o.nodeOf(items[i].pod)].take(&o.pods[items[i].pod].Use, sign)
		}
	}
}

func (o *moveOracle) place(items []moveOracleItem, index int) bool {
	if index == len(items) {
		return o.ordered(items)
	}
	one := &items[index]
	for i, l := range o.ledgers {
		if !o.allowed(items[:index], one, i) {
			continue
		}
		for _, gpus := range l.choices(&one.shape) {
			o.steps++
			one.node = i
			one.use = placement.Use{CPU: one.shape.CPU, Memory: one.shape.Memory, Others: one.shape.Others, GPUs: gpus, Percent: placement.Card}
			if one.shape.Share > 0 {
				one.use.Percent = one.shape.Share
			}
			use := one.use
			l.take(&use, 1)
			ok := o.place(items, index+1)
			l.take(&use, -1)
			if ok {
				return true
			}
		}
	}
	return false
}

// allowed keeps the gang in one leaf if it has to be.
func (o *moveOracle) allowed(before []moveOracleItem, one *moveOracleItem, node int) bool {
	if one.unit >= 0 || !o.gang.Required {
		return true
	}
	for i := range before {
		if before[i].unit < 0 && o.nodes[before[i].node].Domains[0] != o.nodes[node].Domains[0] {
			return false
		}
	}
	return true
}

// ordered reports whether the units can move one after the other. All are at their new
// places now.
func (o *moveOracle) ordered(items []moveOracleItem) bool {
	for i := range items {
		o.ledgers[items[i].node].take(&items[i].use, -1)
	}
	o.lift(items, 1)
	waiting := 0
	for i := range items {
		if items[i].unit >= 0 {
			waiting |= 1 << items[i].unit
		}
	}
	ok := o.inSomeOrder(items, waiting, map[int]bool{})
	o.lift(items, -1)
	for i := range items {
		o.ledgers[items[i].node].take(&items[i].use, 1)
	}
	return ok
}

// inSomeOrder reports whether the waiting units can move in some order; dead has the
// sets that can't.
func (o *moveOracle) inSomeOrder(items []moveOracleItem, waiting int, dead map[int]bool) bool {
	if waiting == 0 || dead[waiting] {
		return waiting == 0
	}
	for unit := range o.units {
		if waiting>>unit&1 == 0 || !o.step(items, unit) {
			continue
		}
		ok := o.inSomeOrder(items, waiting&^(1<<unit), dead)
		o.stepBack(items, unit)
		if ok {
			return true
		}
	}
	dead[waiting] = true
	return false
}

func (o *moveOracle) stepBack(items []moveOracleItem, unit int) {
	for i := range items {
		if items[i].unit == unit {
			o.ledgers[items[i].node].take(&items[i].use, -1)
			o.ledgers[o.nodeOf(items[i].pod)].take(&o.pods[items[i].pod].Use, 1)
		}
	}
}

// step moves one unit, if its places are free.
func (o *moveOracle) step(items []moveOracleItem, unit int) bool {
	var its []moveOracleItem
	for i := range items {
		if items[i].unit == unit {
			its = append(its, items[i])
		}
	}
	o.lift(its, -1)
	for i := range its {
		if !o.ledgers[its[i].node].free(&its[i].use) {
			for _, one := range its[:i] {
				o.ledgers[one.node].take(&one.use, -1)
			}
			o.lift(its, 1)
			return false
		}
		o.ledgers[its[i].node].take(&its[i].use, 1)
	}
	return true
}
