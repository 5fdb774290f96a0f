// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// known is what a node had free when the last step was taken.
type known struct {
	whole int
	idle  bool
}

func (n *node) known() known { return known{whole: n.state.whole, idle: n.idle()} }

// worth is what the free GPUs of a node are worth by themselves: see
// Packing.Gain.
func (k known) worth(cards int) float64 {
	if cards == 0 {
		return 0
	}
	return float64(k.whole) + square(k.whole)/float64(cards)
}

func square(count int) float64 { return float64(count) * float64(count) }

// pays reports whether the shifts from one on gain enough for what the moves cost, and
// nothing gets worse by them. It then counts the gain.
func (p *packer) pays(begin int, done []settled) bool {
	cost := 0.0
	for _, one := range done {
		cost += one.unit.cost
	}
	var nodes []*node
	for i := range p.done[begin:] {
		if n := p.done[begin+i].node; !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	gpus, idle, gain := 0, 0, 0.0
	for _, n := range nodes {
		was, is := p.known[n], n.known()
		gpus += is.whole - was.whole
		idle += oneIf(is.idle) - oneIf(was.idle)
		gain += is.worth(n.sound()) - was.worth(n.sound())
	}
	domains, more := p.domainGain(nodes)
	gain += more
	if gpus < 0 || idle < 0 || domains < 0 || gain < tie || gain < p.options.MinGain*cost {
		return false
	}
	p.result.Gain += gain
	p.settle(nodes)
	return true
}

// domainGain is how many domains more nobody uses, and what the change is worth
// by which parts of domains nobody does.
func (p *packer) domainGain(nodes []*node) (idle int, gain float64) {
	var domains []*Domain
	changes := map[*Domain]int{}
	for _, n := range nodes {
		change := oneIf(n.idle()) - oneIf(p.known[n].idle)
		if change == 0 {
			continue
		}
		for d := n.domain; d != nil && d.Level > 0; d = d.parent {
			if !slices.Contains(domains, d) {
				domains = append(domains, d)
			}
			changes[d] += change * n.sound()
		}
	}
	for _, d := range domains {
		was, is, cards := p.free[d], p.free[d]+changes[d], p.cards[d]
		idle += oneIf(is == cards) - oneIf(was == cards)
		gain += (square(is) - square(was)) / float64(cards)
	}
	return idle, gain
}

// settle notes what is free of nodes now.
func (p *packer) settle(nodes []*node) {
	for _, n := range nodes {
		change := (oneIf(n.idle()) - oneIf(p.known[n].idle)) * n.sound()
		p.known[n] = n.known()
		for d := n.domain; d != nil && d.Level > 0; d = d.parent {
			p.free[d] += change
		}
	}
}
