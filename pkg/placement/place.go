// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "math"

// Place is where a Pod can run.
type Place struct {
	Node string
	Use
	// Cost is the policy's cost.
	Cost float64
}

// tie is the precision of costs: sums of the same numbers in another order differ by
// less. Costs are rounded to it before they are compared, so that which ones are equal
// does not depend on the order of comparisons.
const tie = 1e-9

// Root returns the domain of the whole cluster.
func (c *Cluster) Root() *Domain { return c.root }

// Find returns the best place for a request within a domain; found is false if
// it fits nowhere.
func (c *Cluster) Find(r *Request, within *Domain) (place Place, found bool) {
	c.searched = false
	best, cost := c.best(r, within)
	if best == nil {
		return Place{}, false
	}
	return c.placeOn(best, r, cost), true
}

// On returns the place that a request gets on one node; found is false if it does
// not fit there.
func (c *Cluster) On(node string, r *Request) (place Place, found bool) {
	n := c.nodes[node]
	if n == nil {
		return Place{}, false
	}
	c.policy.Begin(c, r)
	offer := c.offer(n.state, r)
	if offer.reason != Fits || (offer.each && n.fit(r) != Fits) {
		return Place{}, false
	}
	return c.placeOn(n, r, c.cost(offer, n.state, r)), true
}

// best returns the node with the lowest cost, or one that costs about as little and is
// preferred; nil if none can take the request.
func (c *Cluster) best(r *Request, within *Domain) (best *node, cost float64) {
	c.policy.Begin(c, r)
	chosen := c.cheapest(r, within)
	if chosen.node != nil && c.weighs(r) {
		chosen = c.preferred(r, within, chosen)
	}
	return chosen.node, chosen.cost
}

// cheapest returns the candidate with the lowest cost.
func (c *Cluster) cheapest(r *Request, within *Domain) choice {
	best, room := choice{cost: math.Inf(1)}, 0
	if r.named() {
		within.canTake(r, 1, func(n *node) {
			room++
			if next := (choice{node: n, cost: c.cost(c.offer(n.state, r), n.state, r)}); next.beats(best, r) {
				best = next
			}
		})
		c.noteSearch(within.nodes, room)
		return best
	}
	for _, candidates := range within.classes {
		offer := c.offer(candidates.state, r)
		if offer.reason != Fits {
			continue
		}
		room += len(candidates.nodes)
		next := choice{cost: c.cost(offer, candidates.state, r)}
		if best.node != nil && next.cost > best.cost {
			continue
		}
		if next.node = candidates.first(r, offer.each); next.node != nil && next.beats(best, r) {
			best = next
		}
	}
	c.noteSearch(within.nodes, room)
	return best
}

// placeOn returns the place that a request gets on a node.
func (c *Cluster) placeOn(n *node, r *Request, cost float64) Place {
	place := n.place(r, int(c.offer(n.state, r).position))
	place.Cost = cost
	return place
}

// place returns the place of a request on a node; position is that of the card for a
// share.
func (n *node) place(r *Request, position int) Place {
	place := Place{Node: n.Name, Use: Use{CPU: r.CPU, Memory: r.Memory, Others: r.Others}}
	switch {
	case r.Share > 0:
		place.Percent = r.Share
		place.GPUs = []int{n.order[position]}
	case r.GPUs > 0:
		place.Percent = Card
		place.GPUs = n.cards(n.state.choose(r))
	}
	return place
}
