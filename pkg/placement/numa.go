// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// cards maps positions of whole cards to cards of a node. A State does not distinguish
// free cards of the same cell and memory; among these it chooses cards on the fewest NUMA
// nodes.
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

// twins returns the positions of the free cards that are equivalent to the one at a
// position.
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

// onFewestNUMANodes chooses cards: from the NUMA node with the fewest free cards that
// suffice, or else from those with the most.
func (n *node) onFewestNUMANodes(positions []int, count int) []int {
	free := make([]int, 0, len(positions))
	for _, position := range positions {
		free = append(free, n.order[position])
	}
	slices.SortFunc(free, func(a, b int) int { return cmp.Or(cmp.Compare(n.GPUs[a].NUMA, n.GPUs[b].NUMA), cmp.Compare(a, b)) })
	for chosen := 0; chosen < count; {
		from, to := n.bestNUMANode(free[chosen:], count-chosen)
		chosen += moveToFront(free[chosen:], from, min(to, from+count-chosen))
	}
	return free[:count]
}

// bestNUMANode returns the range of the cards of one NUMA node, in a list of cards that
// is sorted by NUMA node.
func (n *node) bestNUMANode(cards []int, missing int) (from, to int) {
	for begin := 0; begin < len(cards); {
		end := begin + 1
		for end < len(cards) && n.GPUs[cards[end]].NUMA == n.GPUs[cards[begin]].NUMA {
			end++
		}
		if to == 0 || tighter(end-begin-missing, to-from-missing) {
			from, to = begin, end
		}
		begin = end
	}
	return from, to
}

// moveToFront moves a range to the front and returns its length; the others keep their
// order.
func moveToFront(cards []int, from, to int) int {
	for i := range to - from {
		card := cards[from+i]
		copy(cards[i+1:], cards[i:from+i])
		cards[i] = card
	}
	return to - from
}

// tighter reports whether a remainder of cards is better than another one; they are
// negative if there are too few cards. The smallest remainder is best, or else the most
// cards.
func tighter(a, b int) bool {
	if a >= 0 && b >= 0 {
		return a < b
	}
	return a > b
}
