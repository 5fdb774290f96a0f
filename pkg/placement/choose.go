// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// choose returns the positions of the cards that a request for whole GPUs gets. The
// request must fit. NVLink groups stay whole: several cards come from one group if one
// suffices, the one with the smallest remainder; a single card has no use for NVLink and
// comes from no group, or from one that is already split.
func (s *State) choose(r *Request) []int {
	positions := make([]int, 0, r.GPUs)
	if s.kind.uniform { // the free cards are the last ones
		for position := len(s.free) - s.whole; len(positions) < r.GPUs; position++ {
			positions = append(positions, position)
		}
		return positions
	}
	for len(positions) < r.GPUs {
		best := s.bestCell(r, r.GPUs-len(positions), positions)
		if best.cards == 0 {
			return positions // can't happen: the request fits
		}
		for position := best.from; position < best.to && len(positions) < r.GPUs; position++ {
			if s.canHave(r, position, positions) {
				positions = append(positions, position)
			}
		}
	}
	return positions
}

// canHave reports whether a request that has taken some cards can have another one.
func (s *State) canHave(r *Request, position int, taken []int) bool {
	return s.free[position] == Card && s.kind.memories[position] >= r.GPUMemory && !slices.Contains(taken, position)
}

// source is a cell that cards may come from.
type source struct {
	cell
	cards int // available
	rest  int // of these, after the request has taken what is missing; negative if too few
	// splits is true if an NVLink group is completely free now, and would be partly in
	// use afterwards.
	splits bool
}

// bestCell returns the cell to take cards from; a source without cards if there is none.
func (s *State) bestCell(r *Request, missing int, taken []int) source {
	var best source
	for _, candidate := range s.kind.cells {
		next := source{cell: candidate}
		free := 0
		for position := candidate.from; position < candidate.to; position++ {
			if s.free[position] == Card {
				free++
			}
			if s.canHave(r, position, taken) {
				next.cards++
			}
		}
		next.rest = next.cards - missing
		next.splits = candidate.linked && free == candidate.to-candidate.from && missing < free
		if next.cards > 0 && (best.cards == 0 || next.better(&best, missing)) {
			best = next
		}
	}
	return best
}

// better reports whether the missing cards should rather come from a than from b.
func (a *source) better(b *source, missing int) bool {
	switch {
	case (a.rest >= 0) != (b.rest >= 0):
		return a.rest >= 0
	case missing > 1 && a.linked != b.linked:
		return a.linked
	case a.splits != b.splits:
		return b.splits
	case a.rest >= 0:
		return a.rest < b.rest
	}
	return a.rest > b.rest // the most cards, so that few cells are needed
}
