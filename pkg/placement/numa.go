// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// cards turns positions of whole cards into the cards of a node. Free cards of the
// same cell and memory are all the same to a State; of them those are taken that
// are on the fewest NUMA nodes.
func (n *node) cards(positions []int) []int {
	var cards []int
	for len(positions) > 0 {
		twins := n.twins(positions[0])
		count := 0
		for count < len(positions) && slices.Contains(twins, positions[count]) {
			count++
		}
		cards = append(cards, n.onFewestNUMANodes(twins, count)...)
		positions = positions[count:]
	}
	slices.Sort(cards)
	return cards
}

// twins returns the positions of the free cards that are no different from the
// one at a position.
func (n *node) twins(position int) []int {
	var list []int
	for _, cell := range n.layout.kind.cells {
		if position < cell.from || position >= cell.to {
			continue
		}
		for other := cell.from; other < cell.to; other++ {
			if n.state.free[other] == Card && n.layout.kind.memories[other] == n.layout.kind.memories[position] {
				list = append(list, other)
			}
		}
	}
	return list
}

// onFewestNUMANodes chooses cards: from the NUMA node with the fewest free ones
// that suffice, or else from those with the most.
func (n *node) onFewestNUMANodes(positions []int, count int) []int {
	byNode := map[int][]int{}
	for _, position := range positions {
		card := n.order[position]
		byNode[n.GPUs[card].NUMA] = append(byNode[n.GPUs[card].NUMA], card)
	}
	groups := make([][]int, 0, len(byNode))
	for _, group := range byNode {
		slices.Sort(group)
		groups = append(groups, group)
	}
	var cards []int
	for len(cards) < count {
		missing := count - len(cards)
		best := slices.MinFunc(groups, func(a, b []int) int {
			if (len(a) >= missing) != (len(b) >= missing) {
				return -cmp.Compare(min(len(a), missing), min(len(b), missing))
			}
			if len(a) >= missing {
				return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a[0], b[0]))
			}
			return cmp.Or(-cmp.Compare(len(a), len(b)), cmp.Compare(a[0], b[0]))
		})
		cards = append(cards, best[:min(missing, len(best))]...)
		groups = slices.DeleteFunc(groups, func(group []int) bool { return group[0] == best[0] })
	}
	return cards
}
