// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
)

// shortageDomains is for how many domains the shortage is computed. More would rarely
// change the result.
const shortageDomains = 16

// shortage finds the fewest GPUs that would have to be free for a gang to fit: greedily,
// placing each member where the fewest are missing.
func (c *Cluster) shortage(g *Gang) *Remedy {
	var best *Remedy
	fewest := 0
	for _, d := range c.roomiest(g) {
		missing, ok := c.missing(g, d)
		count := 0
		for _, gpus := range missing {
			count += len(gpus)
		}
		if ok && count > 0 && (best == nil || count < fewest) && c.helpsIfFree(g, missing) {
			best, fewest = &Remedy{Kind: FreeGPUs, Free: missing, Text: shortText(count, d)}, count
		}
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
// more than GPUs is missing.
func (c *Cluster) missing(g *Gang, d *Domain) (free map[string][]int, ok bool) {
	p := &planner{cluster: c, gang: g}
	freed := freedCards{cluster: c}
	defer freed.restore()
	defer p.giveBack(0)
	for _, left := range p.fill(d, c.demands(g)) {
		for range left.count {
			if p.take(left.role, left.request, d) {
				continue // on cards freed for another member
			}
			n, cards := p.nearest(d, left.request)
			if n == nil {
				return nil, false
			}
			for _, card := range cards {
				freed.add(n, card)
			}
			if !p.takeOn(n, left.role, left.request) {
				return nil, false
			}
		}
	}
	return freed.byNode(), true
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

// nearest returns the node that lacks the fewest GPUs, and nothing else, for one more
// member, and the cards to free.
func (p *planner) nearest(d *Domain, r *Request) (best *node, cards []int) {
	own := p.ownCards()
	for _, members := range d.classes {
		for _, n := range members.nodes {
			lacks, ok := n.lacks(r)
			if !ok {
				continue
			}
			if best != nil && (lacks > len(cards) || (lacks == len(cards) && n.Name > best.Name)) {
				break
			}
			if found := n.freeable(r, lacks, own[n]); len(found) == lacks {
				best, cards = n, found
			}
		}
	}
	return best, cards
}

// ownCards returns the cards that members of the gang hold, by node.
func (p *planner) ownCards() map[*node][]int {
	own := map[*node][]int{}
	for i := range p.taken {
		own[p.taken[i].node] = append(own[p.taken[i].node], p.taken[i].member.GPUs...)
	}
	return own
}

// freeable returns up to count cards that could be freed, least used first.
func (n *node) freeable(r *Request, count int, own []int) []int {
	var cards []int
	for _, card := range slices.Backward(n.order) {
		if len(cards) == count {
			break
		}
		if n.free[card] < Card && !n.GPUs[card].Broken && n.GPUs[card].Memory >= r.GPUMemory && !slices.Contains(own, card) {
			cards = append(cards, card)
		}
	}
	return cards
}

// lacks returns how many more cards would have to be free; ok is false if that does not
// suffice.
func (n *node) lacks(r *Request) (cards int, ok bool) {
	if n.fitEmpty(r) != Fits || n.slots < 1 || n.cpu < r.CPU || n.memory < r.Memory || r.Percent() == 0 {
		return 0, false
	}
	if r.Share > 0 {
		return 1, true
	}
	return max(0, r.GPUs-n.state.wholeFor(r)), true
}

// freedCards are cards that are assumed to be free.
type freedCards struct {
	cluster *Cluster
	all     []freedCard
}

type freedCard struct {
	node *node
	card int
	// percent is how much of the card was freed.
	percent int32
}

func (f *freedCards) add(n *node, card int) {
	f.all = append(f.all, freedCard{node: n, card: card, percent: Card - n.free[card]})
	f.change(n, card, Card-n.free[card])
}

func (f *freedCards) change(n *node, card int, percent int32) {
	before := n.state
	n.free[card] += percent
	f.cluster.reindex(n, before)
}

// restore undoes the assumption.
func (f *freedCards) restore() {
	for _, one := range f.all {
		f.change(one.node, one.card, -one.percent)
	}
}

// byNode returns the cards by the names of their nodes.
func (f *freedCards) byNode() map[string][]int {
	cards := map[string][]int{}
	for _, one := range f.all {
		cards[one.node.Name] = append(cards[one.node.Name], one.card)
	}
	return cards
}

// helpsIfFree reports whether a gang fits when cards are free.
func (c *Cluster) helpsIfFree(g *Gang, free map[string][]int) bool {
	freed := freedCards{cluster: c}
	defer freed.restore()
	for name, cards := range free {
		for _, card := range cards {
			freed.add(c.nodes[name], card)
		}
	}
	return c.helps(g)
}
