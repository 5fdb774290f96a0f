// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// PackingOptions limit a packing plan.
type PackingOptions struct {
	MoveRules
	// Threshold is the utilization of a node's GPUs, or of a card, from 0 to 1, above
	// which Pods are not moved away from it.
	Threshold float64
	// MinGain is the minimum gain of a step per unit of cost: see Packing.Gain.
	MinGain float64
}

// Packing is a set of moves that reduces fragmentation.
type Packing struct {
	// Moves are in an order in which each can be carried out when its turn comes
	// (see Turns).
	Moves []Move
	Cost  float64
	// Gain is what the moves are worth, in GPUs. A completely free GPU counts as one,
	// plus the fraction of its node's GPUs that are completely free, plus, if all of them
	// are, the fraction of such nodes' GPUs in each of the node's domains. So a GPU is
	// worth more the larger the tasks that can use it.
	Gain float64
	// GPUs is how many more are completely free.
	GPUs int
	// Nodes and Domains are the names of those whose GPUs have all become free.
	Nodes   []string
	Domains []string
}

// maxPackingPasses bounds the passes over all nodes. Moves of one pass may make those of
// another node possible.
const maxPackingPasses = 3

// Pack finds moves that free whole GPUs, nodes and domains, without changing the cluster.
// It is greedy: it empties little-used cards and nodes, least used first, and swaps Pods
// where a larger one fills a node better. Each step is tried on the cluster's real States
// and only taken if it gains enough for its cost, stays within the limits, and leaves no
// fewer whole GPUs, and no fewer unused nodes or domains, than before. No Pod moves
// twice.
func (c *Cluster) Pack(options PackingOptions) (*Packing, error) {
	if options.Threshold < 0 || options.Threshold > 1 {
		return nil, fmt.Errorf("threshold: must be 0 to 1, is %g", options.Threshold)
	}
	p := c.packer(&options)
	defer p.undo(0)
	before := p.unused()
	for range maxPackingPasses {
		count := len(p.result.Moves)
		for _, n := range p.donors() {
			if !p.empty(n) && !p.swap(n) {
				p.emptyCards(n)
			}
		}
		if len(p.result.Moves) == count {
			break
		}
	}
	p.summarize(before)
	return p.result, nil
}

// donors returns the nodes whose GPUs are in use, least used first.
func (p *packer) donors() []*node {
	var list []*node
	for _, n := range p.nodes {
		if used := p.used(n); used > 0 {
			list = append(list, n)
		}
	}
	slices.SortStableFunc(list, func(a, b *node) int { return cmp.Compare(p.used(a), p.used(b)) })
	return list
}

// used returns the utilization of a node's GPUs, from 0 to 1.
func (p *packer) used(n *node) float64 {
	cards := n.healthyGPUs()
	if cards == 0 {
		return 0
	}
	return 1 - float64(n.state.percent)/float64(cards*Card)
}

// healthyGPUs counts the GPUs that are not broken.
func (n *node) healthyGPUs() int {
	count := 0
	for i := range n.GPUs {
		if !n.GPUs[i].Broken {
			count++
		}
	}
	return count
}

// idle reports whether a node has GPUs and all of them are free. Unlike State.idle it
// ignores broken ones: they can neither be freed nor be in the way.
func (n *node) idle() bool {
	return n.state.whole > 0 && n.state.whole == n.healthyGPUs()
}

// unused is what is not in use: how many whole GPUs, and which nodes and domains.
type unused struct {
	gpus    int
	nodes   map[*node]bool
	domains map[*Domain]bool
}

func (p *packer) unused() unused {
	u := unused{nodes: map[*node]bool{}, domains: map[*Domain]bool{}}
	for _, n := range p.nodes {
		u.gpus += n.state.whole
		if n.idle() {
			u.nodes[n] = true
		}
	}
	for d, cards := range p.cards {
		if p.free[d] == cards {
			u.domains[d] = true
		}
	}
	return u
}

// summarize reports what has become free.
func (p *packer) summarize(before unused) {
	after := p.unused()
	p.result.GPUs = after.gpus - before.gpus
	for n := range after.nodes {
		if !before.nodes[n] {
			p.result.Nodes = append(p.result.Nodes, n.Name)
		}
	}
	for d := range after.domains {
		if !before.domains[d] && !d.unnamed {
			p.result.Domains = append(p.result.Domains, d.Name)
		}
	}
	slices.Sort(p.result.Nodes)
	slices.Sort(p.result.Domains)
}
