// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"math/rand/v2"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// dice decide what a random test does: a seeded generator, or the bytes of a
// fuzzer.
type dice interface {
	// IntN returns a number from 0 to n-1.
	IntN(n int) int
}

func seeded(seed uint64) dice { return rand.New(rand.NewPCG(seed, 7)) }

// program is bytes: each decision consumes one of them. When they are used up, all
// decisions are 0.
type program struct{ bytes []byte }

func (p *program) IntN(n int) int {
	if len(p.bytes) == 0 {
		return 0
	}
	next := int(p.bytes[0])
	p.bytes = p.bytes[1:]
	return next % n
}

func (p *program) done() bool { return len(p.bytes) == 0 }

// oneIn is true with probability 1/n.
func oneIn(d dice, n int) bool { return d.IntN(n) == n-1 }

// pick returns an element of a list.
func pick[T any](d dice, list ...T) T { return list[d.IntN(len(list))] }

// limits are how large random clusters are.
type limits struct {
	nodes, cards int
	// levels is the depth of the tree of domains.
	levels int
	// alone puts each node into a domain of its own, below the others.
	alone bool
}

// randomNode returns nodes of few different makes, so that some are alike.
func randomNode(d dice, name string, l limits) placement.Node {
	n := placement.Node{
		Name: name, CPU: int64(4000 * (1 + d.IntN(4))), Memory: int64(4000*(1+d.IntN(4)) + pick(d, 0, 0, 1, 2, 5)), Slots: 2 + d.IntN(8),
		Model: pick(d, "a", "a", "b", "c"), Pool: pick(d, "", "", "p"), Closed: oneIn(d, 16),
		Traits:   pick(d, "", "", "a", "ab", "T"),
		Hostname: pick(d, "", "h0", "h1", "h2"),
		Others:   pick(d, nil, nil, amounts(4, 0), amounts(8, 0), amounts(8, 4000), amounts(8, 4003)),
	}
	cards, linked, mixed := d.IntN(l.cards+1), d.IntN(4), oneIn(d, 4)
	for card := range cards {
		gpu := placement.GPU{Memory: 40, Group: -1, NUMA: card % 2, Broken: oneIn(d, 24)}
		switch linked {
		case 1:
			gpu.Group = card / 2
		case 2:
			gpu.Group = card % 2
		case 3:
			gpu.Group = d.IntN(4) - 1
		}
		if mixed {
			gpu.Memory = pick(d, int64(40), 80)
		}
		n.GPUs = append(n.GPUs, gpu)
	}
	levels := l.levels
	if levels > 0 && oneIn(d, 6) {
		levels = d.IntN(levels) // the node is in no domain of the narrowest level
	}
	for level := range levels {
		name := pick(d, "x", "y", "z")
		if level < levels-1 && oneIn(d, 8) {
			name = placement.Unnamed
		}
		n.Domains = append(n.Domains, name)
	}
	if l.alone {
		n.Domains = append(n.Domains, name)
	}
	return n
}

// randomShape returns shapes that fit on many random nodes.
func randomShape(d dice, cards int) placement.Shape {
	s := placement.Shape{CPU: int64(500 * d.IntN(5)), Memory: int64(500 * d.IntN(5))}
	if oneIn(d, 8) {
		s.Memory += int64(pick(d, 1, 2, 4))
	}
	switch d.IntN(5) {
	case 0:
	case 1, 2:
		s.Share = pick(d, 10, 25, 30, 50, 60, 80, 99)
	default:
		s.GPUs = 1 + d.IntN(max(1, cards))
	}
	if oneIn(d, 4) {
		s.Others = amounts(d.IntN(3), 500*d.IntN(5)+d.IntN(3))
	}
	if oneIn(d, 4) {
		s.Models = pick(d, []string{"a"}, []string{"b"}, []string{"b", "a"})
	}
	if oneIn(d, 6) {
		s.GPUMemory = pick(d, int64(40), 41)
	}
	if oneIn(d, 8) {
		s.Pool = "p"
	}
	if oneIn(d, 8) {
		s.Nodes = append(s.Nodes, pick(d, named("n0", "n2", "n7"), named("n1"), hosted("h0"), hosted("h1", "h2"), named()))
	}
	if oneIn(d, 8) {
		s.Nodes = append(s.Nodes, not(pick(d, named("n0"), named("n1", "n3"), hosted("h0"))))
	}
	if oneIn(d, 5) {
		s.Selector = letters(pick(d, "", "", "T", "a", "b"))
	}
	return s
}

// randomUse returns what a Pod may hold on a node, whether or not the node has that much.
func randomUse(d dice, n *placement.Node) placement.Use {
	u := placement.Use{CPU: int64(500 * d.IntN(5)), Memory: int64(500 * d.IntN(5)), Others: amounts(d.IntN(2), 500*d.IntN(2))}
	if d.IntN(4) == 0 {
		return u
	}
	u.Percent = pick(d, 100, 100, 10, 25, 50, 70)
	for card := range n.GPUs {
		if d.IntN(3) == 0 && (u.Percent == 100 || len(u.GPUs) == 0) {
			u.GPUs = append(u.GPUs, card)
		}
	}
	if len(u.GPUs) == 0 {
		u.Percent = 0
	}
	return u
}

// named and hosted admit nodes by their names or hostnames; not admits the others.
func named(names ...string) placement.NodeRule { return placement.NodeRule{Names: names} }

func hosted(names ...string) placement.NodeRule {
	return placement.NodeRule{Names: names, Hostnames: true}
}

func not(rule placement.NodeRule) placement.NodeRule {
	rule.Except = true
	return rule
}

// amounts returns network adapters and bytes of storage.
func amounts(adapters, storage int) placement.Amounts {
	return placement.NewAmounts(map[string]int64{"rdma/hca": int64(adapters), "ephemeral-storage": int64(storage)})
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }
