// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// shortageDomains is for how many domains the shortage is computed. More would rarely
// change the result.
const shortageDomains = 16

// shortage finds the fewest GPUs that would have to be free for a gang to fit: greedily,
// placing each member where the fewest are missing. The Pods on these GPUs leave with
// everything that they hold, as that is how GPUs become free.
func (c *Cluster) shortage(g *Gang) *Remedy {
	var best *Remedy
	fewest := 0
	for _, d := range c.roomiest(g) {
		missing, ok := c.missing(g, d)
		count := 0
		for _, gpus := range missing {
			count += len(gpus)
		}
		if ok && count > 0 && (best == nil || count < fewest) && c.helpsIfFree(g, missing, wholePods) {
			best, fewest = &Remedy{Kind: FreeGPUs, Free: missing, Value: fmt.Sprint(count), Text: shortText(count, d)}, count
		}
	}
	if best != nil && !c.helpsIfFree(g, best.Free, cardsOnly) {
		best.Text += " once the Pods on " + pronoun(fewest) + " have left"
	}
	return best
}

func shortText(count int, d *Domain) string {
	text := fmt.Sprintf("with %d more free GPUs", count)
	if count == 1 {
		text = "with one more free GPU"
	}
	if d.Name != "" {
		text += " in " + d.Name
	}
	return text
}

func pronoun(count int) string {
	if count == 1 {
		return "it"
	}
	return "them"
}

// roomiest returns the domains in which a gang may be, roomiest first.
func (c *Cluster) roomiest(g *Gang) []*Domain {
	start := c.domain(g.Within)
	if !g.Required {
		return []*Domain{start}
	}
	demands, list := c.demands(g), start.at(g.Level)
	slices.SortStableFunc(list, func(a, b *Domain) int { return roomForAll(b, demands) - roomForAll(a, demands) })
	return list[:min(len(list), shortageDomains)]
}

// missing returns which GPUs of a domain would have to be free, by node. ok is false if
// GPUs do not suffice.
func (c *Cluster) missing(g *Gang, d *Domain) (free map[string][]int, ok bool) {
	p := &planner{cluster: c, gang: g}
	s := &shortages{planner: p, departures: departures{cluster: c, leave: wholePods}, own: map[*node][]int{}, known: map[*node]lack{}}
	defer s.restore()
	defer p.giveBack(0)
	for _, left := range p.fill(d, c.demands(g)) {
		clear(s.known)
		for range left.count {
			if !s.add(left, d) {
				return nil, false
			}
		}
	}
	return s.byNode(), true
}

// add places one more member: on cards freed for another one, or where the fewest are missing.
// It reports whether it found a place.
func (s *shortages) add(left demand, d *Domain) bool {
	if !s.take(left.role, left.request, d) {
		n, cards := s.nearest(d, left.request)
		if n == nil {
			return false
		}
		s.free(n, cards)
		s.put(left.role, left.request, n, 0)
	}
	delete(s.known, s.taken[len(s.taken)-1].node)
	return true
}

// shortages finds the nodes that lack the fewest GPUs for one more member.
type shortages struct {
	*planner
	departures
	// known is what nodes lack for the present request, until a member is placed there.
	known map[*node]lack
	// own are the cards of the first members that found a place, by node.
	own   map[*node][]int
	first int
}

// lack is the cards of a node that would have to be free; ok is false if that does not
// suffice.
type lack struct {
	cards []int
	ok    bool
}

// nearest returns the node of a domain that lacks the fewest GPUs, the first by name, and the
// cards to free; nil if there is none.
func (s *shortages) nearest(d *Domain, r *Request) (best *node, cards []int) {
	if r.Percent() == 0 {
		return nil, nil
	}
	for _, members := range d.classes {
		least := members.nodes[0].lacksCards(r) // as all of the class do
		if best != nil && least > len(cards) {
			continue
		}
		for _, n := range members.nodes {
			if best != nil && least == len(cards) && n.Name > best.Name {
				break // none of the others lacks less
			}
			lack := s.lackOf(n, r)
			if lack.ok && (best == nil || cmp.Or(cmp.Compare(len(lack.cards), len(cards)), cmp.Compare(n.Name, best.Name)) < 0) {
				best, cards = n, lack.cards
			}
		}
	}
	return best, cards
}

// lackOf is lacks, computed once.
func (s *shortages) lackOf(n *node, r *Request) lack {
	known, found := s.known[n]
	if !found {
		known.cards, known.ok = s.lacks(n, r)
		s.known[n] = known
	}
	return known
}

// lacks returns the cards of a node that would have to be free for one more member; ok is
// false if that does not suffice. They are few, and if one of them stayed in use, there
// would be no room.
func (s *shortages) lacks(n *node, r *Request) (cards []int, ok bool) {
	if n.fitEmpty(r) != Fits {
		return nil, false
	}
	least := n.lacksCards(r)
	usable := n.freeable(r, s.ownCards(n))
	if len(usable) < least {
		return nil, false
	}
	count := least
	for ; count < len(usable) && !s.suffice(n, r, usable[:count]); count++ {
		continue
	}
	if !s.suffice(n, r, usable[:count]) {
		return nil, false
	}
	cards = slices.Clone(usable[:count])
	for i := 0; i < len(cards) && len(cards) > least; {
		if fewer := slices.Delete(slices.Clone(cards), i, i+1); s.suffice(n, r, fewer) {
			cards = fewer
		} else {
			i++
		}
	}
	return cards, true
}

// lacksCards returns how many more cards would have to be free for a request.
func (n *node) lacksCards(r *Request) int {
	if r.Share > 0 {
		return oneIf(!n.state.hasShare(r))
	}
	return max(0, r.GPUs-n.state.wholeFor(r))
}

// freeable returns the cards that could be freed, least used first.
func (n *node) freeable(r *Request, own []int) []int {
	var cards []int
	for _, card := range slices.Backward(n.order) {
		if n.free[card] < Card && !n.GPUs[card].Broken && n.GPUs[card].Memory >= r.GPUMemory && !slices.Contains(own, card) {
			cards = append(cards, card)
		}
	}
	return cards
}

// ownCards returns the cards of a node that members of the gang hold.
func (s *shortages) ownCards(n *node) []int {
	for ; s.first < len(s.taken); s.first++ {
		t := &s.taken[s.first]
		s.own[t.node] = append(s.own[t.node], t.member.GPUs...)
	}
	return s.own[n]
}

// suffice reports whether a node has enough of everything but GPUs for a request when the
// Pods on some cards have left.
func (s *shortages) suffice(n *node, r *Request, cards []int) bool {
	v := n.vacancy(nil)
	if v.suffices(r) {
		return true
	}
	for _, pod := range s.leaving(n, cards) {
		v.give(pod.besidesGPUs())
	}
	return v.suffices(r)
}

// helpsIfFree reports whether a gang fits when cards are free.
func (c *Cluster) helpsIfFree(g *Gang, free map[string][]int, leave leaving) bool {
	d := departures{cluster: c, leave: leave}
	defer d.restore()
	for name, cards := range free {
		d.free(c.nodes[name], cards)
	}
	return c.helps(g)
}
