// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// resources are what is free on a node of a kind.
type resources struct {
	kind   *kind
	cpu    int64
	memory int64
	slots  int
	// others are the free amounts of the other resources, in the order of the kind.
	others []int64
	// free is the free percentage of each card, by the card's index. It is tracked for a
	// broken card as well, but never offered.
	free []int32
}

// take takes what a Pod holds.
func (r *resources) take(use *Use) { r.add(use, -1) }

// give gives back what a Pod held.
func (r *resources) give(use *Use) { r.add(use, 1) }

// add adds what a Pod holds so many times.
func (r *resources) add(use *Use, times int) {
	r.cpu += int64(times) * use.CPU
	r.memory += int64(times) * use.Memory
	if !use.NoSlot {
		r.slots += times
	}
	r.kind.add(r.others, use.Others, times)
	for _, gpu := range use.GPUs {
		if gpu < len(r.free) { // the node may have lost GPUs since
			r.free[gpu] += int32(times * use.Percent) //nolint:gosec // at most Card
		}
	}
}

// freeAll sets the resources of a node to those that it has while nothing runs there.
func (n *node) freeAll() {
	n.order = slices.Clone(n.layout.cards)
	n.resources = resources{
		kind: n.layout.kind, cpu: n.CPU, memory: n.Memory, slots: n.Slots, others: n.Others.values(), free: make([]int32, len(n.GPUs)),
	}
	for i := range n.free {
		n.free[i] = Card
	}
	n.setSlack()
}

// vacancy is what would be free on a node.
type vacancy struct {
	resources
	node *node
}

// vacancy returns what is free on a node; free are its cards.
func (n *node) vacancy(free []int32) vacancy {
	v := vacancy{n.resources, n}
	v.others, v.free = slices.Clone(n.others), free
	return v
}

// fits reports whether there is room for a request that fits the kind of node.
func (v *vacancy) fits(r *Request) bool {
	return v.suffices(r) && v.capacity(r) > 0
}

// suffices reports whether there is room for a request besides its GPUs.
func (v *vacancy) suffices(r *Request) bool {
	return v.slots >= 1 && v.cpu >= r.CPU && v.memory >= r.Memory && v.kind.short(v.others, &slack{}, r.Others) == ""
}

// capacity returns how many Pods of a request fit on the GPUs and in the Pod slots.
func (v *vacancy) capacity(r *Request) int {
	if r.Percent() == 0 {
		return v.kind.times(v.others, &slack{}, r.Others, v.slots)
	}
	wanted := Card
	if r.Share > 0 {
		wanted = r.Share
	}
	pieces := 0
	for gpu, free := range v.free {
		if !v.node.GPUs[gpu].Broken && v.node.GPUs[gpu].Memory >= r.GPUMemory && free > 0 {
			pieces += int(free) / wanted
		}
	}
	return min(v.slots, pieces/max(r.GPUs, 1))
}
