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
			best, fewest = &Remedy{Kind: FreeGPUs, Free: missing, Text: shortText(count, d)}, count
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
	start := c.root
	if g.Within != "" {
		start = c.domain(g.Within)
	}
	if !g.Required || g.Level <= start.Level {
		return []*Domain{start}
	}
	demands := c.demands(g)
	var list []*Domain
	start.visit(g.Level, func(d *Domain) { list = append(list, d) })
	slices.SortStableFunc(list, func(a, b *Domain) int { return roomForAll(b, demands) - roomForAll(a, demands) })
	return list[:min(len(list), shortageDomains)]
}

// missing returns which GPUs of a domain would have to be free, by node. ok is false if
// GPUs do not suffice.
func (c *Cluster) missing(g *Gang, d *Domain) (free map[string][]int, ok bool) {
	p := &planner{cluster: c, gang: g}
	s := &shortages{planner: p, departures: departures{cluster: c, leave: wholePods}, own: map[*node][]int{}}
	defer s.restore()
	defer p.giveBack(0)
	for _, left := range p.fill(d, c.demands(g)) {
		s.list(d, left.request)
		for range left.count {
			if p.take(left.role, left.request, d) {
				continue // on cards freed for another member
			}
			n, cards := s.nearest(left.request)
			if n == nil {
				return nil, false
			}
			s.free(n, cards)
			if !p.takeOn(n, left.role, left.request) {
				return nil, false // can't happen: it was computed
			}
			s.add(n, left.request)
		}
	}
	return s.byNode(), true
}

// takeOn places a member on a node.
func (p *planner) takeOn(n *node, role int, r *Request) bool {
	if n.fit(r) != Fits {
		return false
	}
	t := taken{member: Member{Role: role, Place: p.cluster.placeOn(n, r, 0)}, node: n}
	p.cluster.shift(n, &t.member.Use, 1)
	p.taken = append(p.taken, t)
	return true
}

// shortages finds the nodes that lack the fewest GPUs for one more member.
type shortages struct {
	*planner
	departures
	// nodes are those that could take a member if some cards were free, the one that
	// lacks the fewest first, and by name.
	nodes []lacking
	// own are the cards of the first members that found a place, by node.
	own   map[*node][]int
	first int
}

// lacking is a node, and the cards that would have to be free.
type lacking struct {
	node  *node
	cards []int
}

func (l lacking) compare(other lacking) int {
	return cmp.Or(cmp.Compare(len(l.cards), len(other.cards)), cmp.Compare(l.node.Name, other.node.Name))
}

// list finds out what the nodes of a domain lack for a request.
func (s *shortages) list(d *Domain, r *Request) {
	s.nodes = s.nodes[:0]
	for _, members := range d.classes {
		for _, n := range members.nodes {
			if cards, ok := s.lacks(n, r); ok {
				s.nodes = append(s.nodes, lacking{n, cards})
			}
		}
	}
	slices.SortFunc(s.nodes, lacking.compare)
}

// add inserts what a node lacks.
func (s *shortages) add(n *node, r *Request) {
	if cards, ok := s.lacks(n, r); ok {
		one := lacking{n, cards}
		at, _ := slices.BinarySearchFunc(s.nodes, one, lacking.compare)
		s.nodes = slices.Insert(s.nodes, at, one)
	}
}

// nearest removes and returns the node that lacks the fewest GPUs, and the cards to free;
// nil if there is none.
func (s *shortages) nearest(r *Request) (*node, []int) {
	for len(s.nodes) > 0 {
		first := s.nodes[0]
		s.nodes = s.nodes[1:]
		cards, ok := s.lacks(first.node, r)
		switch {
		case ok && slices.Equal(cards, first.cards):
			return first.node, cards
		case ok: // a member has been placed there since
			s.add(first.node, r)
		}
	}
	return nil, nil
}

// lacks returns the cards of a node that would have to be free for one more member; ok is
// false if that does not suffice. They are few, and if one of them stayed in use, there
// would be no room.
func (s *shortages) lacks(n *node, r *Request) (cards []int, ok bool) {
	if r.Percent() == 0 || n.fitEmpty(r) != Fits {
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
	if v.suffices(n, r) {
		return true
	}
	for _, pod := range s.leaving(n, cards) {
		v.add(n, []*Use{pod.besides()}, 1)
	}
	return v.suffices(n, r)
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
