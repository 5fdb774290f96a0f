// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// class is nodes with the same capacity.
type class struct {
	model       string
	cpu, memory int64 // of each node
	cards       int   // of each node
	nodes       int
}

// classesOf counts nodes with the same capacity.
func classesOf(nodes []placement.Node) []class {
	var classes []class
	for i := range nodes {
		n := &nodes[i]
		one := class{model: n.Model, cpu: n.CPU, memory: n.Memory, cards: len(n.GPUs), nodes: 1}
		at := slices.IndexFunc(classes, func(c class) bool {
			c.nodes = 1
			return c == one
		})
		if at < 0 {
			classes = append(classes, one)
		} else {
			classes[at].nodes++
		}
	}
	return classes
}

// accepts reports whether an empty node of the class could take a Pod of a shape.
func (c *class) accepts(s *placement.Shape) bool {
	cards := s.GPUs
	if s.Share > 0 {
		cards = 1
	}
	model := cards == 0 || len(s.Models) == 0 || slices.Contains(s.Models, c.model)
	return model && c.cards >= cards && c.cpu >= s.CPU && c.memory >= s.Memory
}

// item is Pods of one shape with the same value.
type item struct {
	shape *placement.Shape
	count int
	// value is that of one Pod.
	value float64
}

// problem is what can be placed where.
type problem struct {
	classes []class
	items   []item
}

// add adds a range of Pods as items, if they have a value.
func (p *problem) add(s *shapes, from, to int, value func(*placement.Shape) float64) {
	counts := make([]int, len(s.list))
	for _, shape := range s.of[from:to] {
		counts[shape]++
	}
	for i, count := range counts {
		if worth := value(s.list[i]); count > 0 && worth > 0 {
			p.items = append(p.items, item{shape: s.list[i], count: count, value: worth})
		}
	}
}

// gpus returns the requested GPUs of a Pod, in cards.
func gpus(s *placement.Shape) float64 { return float64(s.Percent()) / placement.Card }

// shapes counts Pods by shape, in the order in which the shapes first arrive.
type shapes struct {
	list  []*placement.Shape
	index map[string]int
	of    []int // the shape of each Pod
}

func shapesOf(pods []placement.Shape) *shapes {
	s := &shapes{index: map[string]int{}}
	for i := range pods {
		key := pods[i].String()
		at, seen := s.index[key]
		if !seen {
			at = len(s.list)
			s.index[key] = at
			s.list = append(s.list, &pods[i])
		}
		s.of = append(s.of, at)
	}
	return s
}
