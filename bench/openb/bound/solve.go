// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"math"
	"slices"
)

const (
	// tolerance is how far the bound may be above the program's value, relative
	// to it.
	tolerance = 1e-5
	// rounds is the maximum number of generations of columns: after that the bound is a
	// little higher than it could be.
	rounds = 200
)

// Rows of a class, after those of the items.
const (
	cardRow = iota
	cpuRow
	memoryRow
	classRows
)

// solve returns the lowest bound that it finds.
func (p *problem) solve() (float64, error) {
	columns := p.plain()
	known := map[string]bool{}
	for i := range columns {
		known[columns[i].key()] = true
	}
	bound := math.Inf(1)
	for range rounds {
		value, at, err := p.relax(columns)
		if err != nil {
			return 0, err
		}
		bound = min(bound, p.lagrange(at))
		if bound <= value*(1+tolerance) {
			break
		}
		fresh := p.generate(at, known)
		if len(fresh) == 0 {
			break
		}
		columns = append(columns, fresh...)
	}
	return bound, nil
}

// generate returns the best pattern of each class, on all classes that accept it.
func (p *problem) generate(at *prices, known map[string]bool) []column {
	var fresh []column
	for k := range p.classes {
		items, gain := p.pattern(at, k)
		if gain <= at.cards[k]*(1+tolerance/10) || len(items) == 0 {
			continue
		}
		slices.Sort(items)
		for other := range p.classes {
			c := column{class: other, cards: 1, items: items}
			if key := c.key(); !known[key] && p.allAccepted(other, items) {
				known[key] = true
				fresh = append(fresh, c)
			}
		}
	}
	return fresh
}

func (p *problem) allAccepted(k int, items []int) bool {
	return !slices.ContainsFunc(items, func(i int) bool { return !p.classes[k].accepts(p.items[i].shape) })
}

// relax solves the program with some columns and returns its value and the rows' prices.
func (p *problem) relax(columns []column) (float64, *prices, error) {
	lp := p.program(columns)
	value, duals, err := lp.solve()
	if err != nil {
		return 0, nil, err
	}
	at := &prices{item: duals[:len(p.items)]}
	for k := range p.classes {
		row := len(p.items) + classRows*k
		at.cards = append(at.cards, duals[row+cardRow])
		at.cpu = append(at.cpu, duals[row+cpuRow])
		at.memory = append(at.memory, duals[row+memoryRow])
	}
	return value, at, nil
}

func (p *problem) program(columns []column) *program {
	lp := &program{}
	for i := range p.items {
		lp.limits = append(lp.limits, float64(p.items[i].count))
	}
	for _, c := range p.classes {
		nodes := float64(c.nodes)
		lp.limits = append(lp.limits, nodes*float64(c.cards), nodes*float64(c.cpu)/core, nodes*float64(c.memory)/gib)
	}
	for i := range columns {
		lp.add(p.entries(&columns[i]))
	}
	return lp
}

// entries returns what a column uses of each row, and its value.
func (p *problem) entries(c *column) (value float64, entries []entry) {
	row := len(p.items) + classRows*c.class
	cpu, memory := 0.0, 0.0
	for _, i := range c.items {
		value += p.items[i].value
		cpu += float64(p.items[i].shape.CPU) / core
		memory += float64(p.items[i].shape.Memory) / gib
		if last := len(entries) - 1; last >= 0 && entries[last].row == i {
			entries[last].amount++
		} else {
			entries = append(entries, entry{row: i, amount: 1})
		}
	}
	for offset, amount := range [classRows]float64{cardRow: float64(c.cards), cpuRow: cpu, memoryRow: memory} {
		if amount > 0 {
			entries = append(entries, entry{row: row + offset, amount: amount})
		}
	}
	return value, entries
}
