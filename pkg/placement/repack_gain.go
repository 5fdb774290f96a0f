// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// freeGPUs is how many whole GPUs of a node are free, and whether all of its GPUs are.
type freeGPUs struct {
	whole int
	idle  bool
}

func (n *node) freeGPUs() freeGPUs { return freeGPUs{whole: n.state.whole, idle: n.idle()} }

// worth returns what the free GPUs of a node are worth by themselves: see Packing.Gain.
func (f freeGPUs) worth(cards int) float64 {
	if cards == 0 {
		return 0
	}
	return float64(f.whole) + square(f.whole)/float64(cards)
}

func square(count int) float64 { return float64(count) * float64(count) }

// pays reports whether the changes from begin on gain enough for the cost of the moves and
// make nothing worse. If so, it adds their gain to the result.
func (p *packer) pays(begin int, done []placedUnit) bool {
	cost := 0.0
	for _, placed := range done {
		cost += placed.unit.cost
	}
	var nodes []*node
	for i := range p.done[begin:] {
		if n := p.done[begin+i].node; !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	gpus, idle, gain := 0, 0, 0.0
	for _, n := range nodes {
		was, is := p.last[n], n.freeGPUs()
		gpus += is.whole - was.whole
		idle += oneIf(is.idle) - oneIf(was.idle)
		gain += is.worth(n.healthyGPUs()) - was.worth(n.healthyGPUs())
	}
	domains, more := p.domainGain(nodes)
	gain += more
	if gpus < 0 || idle < 0 || domains < 0 || gain < tie || gain < p.options.MinGain*cost {
		return false
	}
	p.result.Gain += gain
	p.remember(nodes)
	return true
}

// domainGain returns how many more domains are completely unused, and what the change of
// the unused parts of domains is worth.
func (p *packer) domainGain(nodes []*node) (idle int, gain float64) {
	var domains []*Domain
	changes := map[*Domain]int{}
	for _, n := range nodes {
		change := oneIf(n.idle()) - oneIf(p.last[n].idle)
		if change == 0 {
			continue
		}
		for d := n.domain; d != nil && d.Level > 0; d = d.parent {
			if !slices.Contains(domains, d) {
				domains = append(domains, d)
			}
			changes[d] += change * n.healthyGPUs()
		}
	}
	for _, d := range domains {
		was, is, cards := p.free[d], p.free[d]+changes[d], p.cards[d]
		idle += oneIf(is == cards) - oneIf(was == cards)
		gain += (square(is) - square(was)) / float64(cards)
	}
	return idle, gain
}

// remember stores what is free on nodes now.
func (p *packer) remember(nodes []*node) {
	for _, n := range nodes {
		change := (oneIf(n.idle()) - oneIf(p.last[n].idle)) * n.healthyGPUs()
		p.last[n] = n.freeGPUs()
		for d := n.domain; d != nil && d.Level > 0; d = d.parent {
			p.free[d] += change
		}
	}
}
