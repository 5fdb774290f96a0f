// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"slices"
)

// offer is whether and at what price a State can take a request.
type offer struct {
	// request is the id of the one that the offer is for; 0 if the slot is empty.
	request int
	epoch   uint64
	reason  Reason
	// each is true if only some of the nodes in the State can take the request.
	each     bool
	position int16 // of the card for a share; else -1
	cost     float64
}

// maxOffers is the number of requests for which a State caches an offer. Requests that
// evict each other cost time, not correctness.
const maxOffers = 512

// offer returns a State's offer for a request, cached as long as prices do not change.
func (c *Cluster) offer(s *State, r *Request) *offer {
	known := slotOf(&s.offers, r.id, maxOffers)
	if epoch := c.policy.Epoch(); known.request != r.id || known.epoch != epoch {
		*known = c.price(s, r)
		known.request, known.epoch = r.id, epoch
	}
	return known
}

// price finds the cheapest way for a State to take a request.
func (c *Cluster) price(s *State, r *Request) offer {
	best := offer{position: -1, cost: math.Inf(1)}
	best.reason, best.each = s.mayFit(r)
	if best.reason != Fits {
		return best
	}
	if r.Share == 0 {
		best.cost = c.policy.Price(Step{Request: r, Before: s, After: c.stateAfter(s, r, s.choose(r))})
		return best
	}
	for position := range s.free {
		if !s.sharesAt(r, position) || s.twin(position) {
			continue
		}
		step := Step{Request: r, Before: s, After: c.stateAfter(s, r, []int{position}), CardFree: int(s.free[position])}
		if cost := c.policy.Price(step); best.position < 0 || cost < best.cost {
			best.cost, best.position = cost, int16(position) // less than MaxCards
		}
	}
	return best
}

// twin reports whether the card before is in the same cell, of the same memory and as
// free.
func (s *State) twin(position int) bool {
	if position == 0 || s.free[position-1] != s.free[position] || s.kind.memories[position-1] != s.kind.memories[position] {
		return false
	}
	for _, cell := range s.kind.cells {
		if cell.from == position {
			return false
		}
	}
	return true
}

// stateAfter returns the State after a request has taken the cards at some positions.
func (c *Cluster) stateAfter(s *State, r *Request, positions []int) *State {
	taken := r.Share
	if taken == 0 {
		taken = Card
	}
	cards := len(s.free)
	c.scratch = slices.Grow(c.scratch[:0], 2*cards)[:2*cards]
	free, byPosition := c.scratch[:cards], c.scratch[cards:]
	copy(free, s.free)
	for _, position := range positions {
		free[position] -= int8(taken)
	}
	order := c.identity(cards)
	s.kind.sortCards(order, free)
	for position, card := range order {
		byPosition[position] = free[card]
	}
	c.amounts = append(c.amounts[:0], s.others...)
	s.kind.add(c.amounts, r.Others, -1)
	return c.state(s.kind, rest{cpu: s.cpu - r.CPU, memory: s.memory - r.Memory, slots: s.slots - 1, others: c.amounts}, byPosition)
}

// identity returns 0, 1, 2, … in a buffer that the next call reuses.
func (c *Cluster) identity(length int) []int {
	c.order = c.order[:0]
	for i := range length {
		c.order = append(c.order, i)
	}
	return c.order
}
