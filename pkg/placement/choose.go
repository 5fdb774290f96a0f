// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// choose returns the positions of the cards that a request for whole GPUs gets.
// The request must fit. NVLink groups stay whole: one group if one suffices, the
// smallest rest, single cards from groups that are broken already.
func (s *State) choose(r *Request) []int {
	positions := make([]int, 0, r.GPUs)
	for len(positions) < r.GPUs {
		missing := r.GPUs - len(positions)
		cell, cards := s.bestCell(r, missing, positions)
		if cell < 0 {
			return positions // can't be: the request fits
		}
		positions = append(positions, cards[:min(missing, len(cards))]...)
	}
	return positions
}

// bestCell returns the cell to take cards from, and its cards that can be had.
func (s *State) bestCell(r *Request, missing int, taken []int) (best int, cards []int) {
	best = -1
	for i, cell := range s.kind.cells {
		var free []int
		for position := cell.from; position < cell.to; position++ {
			if s.free[position] == Card && s.kind.memories[position] >= r.GPUMemory && !contains(taken, position) {
				free = append(free, position)
			}
		}
		if len(free) > 0 && (best < 0 || betterRest(len(free)-missing, len(cards)-missing)) {
			best, cards = i, free
		}
	}
	return best, cards
}

// betterRest compares what would remain of two cells, negative if a cell does not
// suffice: the smallest rest that is not, else the largest cell.
func betterRest(a, b int) bool {
	if (a >= 0) != (b >= 0) {
		return a >= 0
	}
	if a >= 0 {
		return a < b
	}
	return a > b
}

func contains(positions []int, position int) bool {
	for _, one := range positions {
		if one == position {
			return true
		}
	}
	return false
}
