// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Memory is all that a Policy has learned: a Policy that is restored from it decides as the one
// that it was taken from.
type Memory struct {
	// Shapes are those that the other fields refer to by their index.
	Shapes []placement.Shape
	// Mix has the requests as first seen, Unit the weight of the next one.
	Mix  []Remembered
	Unit float64
	// Seen and RefreshAt count requests.
	Seen, RefreshAt int
	// The rest was derived at the last refresh.
	CPUPerPercent, WholeNodes, LargestCPU, Turnover float64
	WholeNodeCPU                                    int64
	Cards                                           int
	// Worth is by the free percentage of a card.
	Worth []float64
	// Futures are sequences of shapes.
	Futures  [][]int
	Scarcity map[string]float64
	Groups   []RememberedGroup
}

// Remembered is a request of the Mix.
type Remembered struct {
	Shape          int
	Weight, Ending float64
}

// RememberedGroup is nodes that the same requests depend on.
type RememberedGroup struct {
	Dependent float64
	// Kinds describe an empty node of each kind.
	Kinds []placement.Node
}

// shapeIndex numbers shapes.
type shapeIndex struct {
	memory *Memory
	known  map[*placement.Request]int
}

func (x *shapeIndex) of(r *placement.Request) int {
	at, known := x.known[r]
	if !known {
		at = len(x.memory.Shapes)
		x.known[r] = at
		x.memory.Shapes = append(x.memory.Shapes, r.Shape)
	}
	return at
}

// Memory returns what the policy has learned. It does not change with the policy.
func (p *Policy) Memory() *Memory {
	l := &p.learned
	m := &Memory{
		Unit: p.mix.unit, Seen: p.mix.seen, RefreshAt: p.refreshAt,
		CPUPerPercent: l.cpuPerPercent, WholeNodes: l.wholeNodes, LargestCPU: l.largestCPU, Turnover: l.turnover,
		WholeNodeCPU: l.wholeNodeCPU, Cards: l.cards, Worth: l.worth[:], Scarcity: l.scarcity,
	}
	index := &shapeIndex{memory: m, known: map[*placement.Request]int{}}
	for _, entry := range p.mix.order {
		m.Mix = append(m.Mix, Remembered{Shape: index.of(entry.Request), Weight: entry.Weight, Ending: entry.Ending})
	}
	for _, sequence := range l.futures {
		shapes := make([]int, len(sequence))
		for i, r := range sequence {
			shapes[i] = index.of(r)
		}
		m.Futures = append(m.Futures, shapes)
	}
	for i := range l.groups {
		group := RememberedGroup{Dependent: l.groups[i].dependent}
		for _, empty := range l.groups[i].kinds {
			group.Kinds = append(group.Kinds, empty.Empty())
		}
		m.Groups = append(m.Groups, group)
	}
	return m
}

// Recall replaces what the policy has learned by a Memory, for a cluster that has its nodes.
func (p *Policy) Recall(cluster *placement.Cluster, m *Memory) error {
	if len(m.Worth) != placement.Card+1 {
		return fmt.Errorf("worth: must have %d numbers, has %d", placement.Card+1, len(m.Worth))
	}
	requests := make([]*placement.Request, len(m.Shapes))
	for i := range m.Shapes {
		requests[i] = cluster.Request(m.Shapes[i])
	}
	known := func(shape int) error {
		if shape < 0 || shape >= len(requests) {
			return fmt.Errorf("there is no shape %d, there are %d", shape, len(requests))
		}
		return nil
	}
	mix := NewMix(p.parameters.HalfLife)
	for _, remembered := range m.Mix {
		if err := known(remembered.Shape); err != nil {
			return fmt.Errorf("mix: %w", err)
		}
		mix.AddWeight(requests[remembered.Shape], 0)
		entry := mix.entries[requests[remembered.Shape]]
		entry.Weight, entry.Ending = remembered.Weight, remembered.Ending
	}
	mix.unit, mix.seen = m.Unit, m.Seen
	l := learned{
		cpuPerPercent: m.CPUPerPercent, worth: (*worth)(m.Worth), scarcity: m.Scarcity, wholeNodes: m.WholeNodes, wholeNodeCPU: m.WholeNodeCPU,
		cards: m.Cards, largestCPU: m.LargestCPU, turnover: m.Turnover, groupOf: map[int]int{},
	}
	for _, shapes := range m.Futures {
		sequence := make([]*placement.Request, len(shapes))
		for i, shape := range shapes {
			if err := known(shape); err != nil {
				return fmt.Errorf("futures: %w", err)
			}
			sequence[i] = requests[shape]
		}
		l.futures = append(l.futures, sequence)
	}
	for i := range m.Groups {
		g := group{dependent: m.Groups[i].Dependent}
		for _, described := range m.Groups[i].Kinds {
			empty := cluster.EmptyState(described)
			g.kinds = append(g.kinds, empty)
			l.groupOf[empty.Kind()] = i
		}
		l.groups = append(l.groups, g)
	}
	p.mix, p.refreshAt, p.learned = mix, m.RefreshAt, l
	p.depending = p.depending[:0]
	p.epoch++
	return nil
}
