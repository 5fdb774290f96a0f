// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// spot is a possible place: a node and, for a share, the position of the card.
type spot struct {
	node     *node
	position int
	// rest is what would remain, the scarcest resource first.
	rest [3]int64
}

// spots returns up to most places for a request, tightest first.
func (c *Cluster) spots(request *Request, within *Domain, most int) []spot {
	var list []spot
	// Nodes of a class differ in which units will leave them, and when.
	within.canTake(request, 2, func(n *node) {
		state := n.state
		if state.Closed() {
			return // the Pods there will have to leave
		}
		cpu := state.cpu - request.CPU
		if request.Share == 0 {
			list = append(list, spot{node: n, position: -1, rest: [3]int64{int64(state.whole - request.GPUs), int64(state.percent), cpu}})
			return
		}
		for position := range state.free {
			if state.sharesAt(request, position) && !state.twin(position) {
				rest := int64(state.free[position]) - int64(request.Share)
				list = append(list, spot{node: n, position: position, rest: [3]int64{rest, int64(state.percent), cpu}})
			}
		}
	})
	slices.SortFunc(list, func(a, b spot) int {
		return cmp.Or(slices.Compare(a.rest[:], b.rest[:]), cmp.Compare(a.node.Name, b.node.Name), cmp.Compare(a.position, b.position))
	})
	return list[:min(most, len(list))]
}

// place returns the place of a request on the spot.
func (s *spot) place(r *Request) Place { return s.node.place(r, s.position) }
