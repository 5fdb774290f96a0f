// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"fmt"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// column is Pods that are placed together on cards of a class.
type column struct {
	class int
	cards int
	// items has each Pod's item, sorted.
	items []int
}

func (c *column) key() string { return fmt.Sprint(c.class, c.cards, c.items) }

// prices are the prices of the rows.
type prices struct {
	item               []float64 // for each Pod
	cards, cpu, memory []float64 // by class; for a card, a core and a GiB
}

// Units that keep the numbers of the rows in a similar range.
const (
	core = 1000.0 // milli-cores
	gib  = 1024.0 // MiB
)

// gain returns what a Pod is worth on a class, less the prices of everything but cards.
func (p *problem) gain(at *prices, k, i int) float64 {
	s := p.items[i].shape
	return p.items[i].value - at.item[i] - at.cpu[k]*float64(s.CPU)/core - at.memory[k]*float64(s.Memory)/gib
}

// plain returns the columns with Pods of one item only, as many as a card takes.
func (p *problem) plain() []column {
	var columns []column
	for k := range p.classes {
		for i := range p.items {
			s := p.items[i].shape
			if !p.classes[k].accepts(s) {
				continue
			}
			c := column{class: k, cards: s.GPUs, items: []int{i}}
			if s.Share > 0 {
				c.cards = 1
				for range placement.Card/s.Share - 1 {
					c.items = append(c.items, i)
				}
			}
			columns = append(columns, c)
		}
	}
	return columns
}

// pattern returns the best filling of one card of a class with shares.
func (p *problem) pattern(at *prices, k int) (items []int, gain float64) {
	best := [placement.Card + 1]int{} // the item of each size
	for size := range best {
		best[size] = -1
	}
	for i := range p.items {
		s := p.items[i].shape
		if s.Share > 0 && p.classes[k].accepts(s) && (best[s.Share] < 0 || p.gain(at, k, i) > p.gain(at, k, best[s.Share])) {
			best[s.Share] = i
		}
	}
	value := [placement.Card + 1]float64{}
	last := [placement.Card + 1]int{} // the item that was added; -1 is none
	for free := 1; free <= placement.Card; free++ {
		value[free], last[free] = value[free-1], -1
		for size := 1; size <= free; size++ {
			if best[size] < 0 {
				continue
			}
			if with := value[free-size] + p.gain(at, k, best[size]); with > value[free] {
				value[free], last[free] = with, best[size]
			}
		}
	}
	for free := placement.Card; free > 0; {
		if last[free] < 0 {
			free--
			continue
		}
		items = append(items, last[free])
		free -= p.items[last[free]].shape.Share
	}
	return items, value[placement.Card]
}

// lagrange returns the bound for some prices. It raises them where a Pod without GPUs
// would be worth more than it costs: nothing else limits these.
func (p *problem) lagrange(at *prices) float64 {
	bound := 0.0
	for k := range p.classes {
		c := &p.classes[k]
		_, card := p.pattern(at, k)
		for i := range p.items {
			if s := p.items[i].shape; c.accepts(s) {
				switch {
				case s.GPUs > 0:
					card = max(card, p.gain(at, k, i)/float64(s.GPUs))
				case s.Share == 0:
					at.item[i] += max(0, p.gain(at, k, i))
				}
			}
		}
		each := card*float64(c.cards) + at.cpu[k]*float64(c.cpu)/core + at.memory[k]*float64(c.memory)/gib
		bound += each * float64(c.nodes)
	}
	for i := range p.items {
		bound += at.item[i] * float64(p.items[i].count)
	}
	return bound
}
