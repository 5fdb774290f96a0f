// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"fmt"
	"slices"
)

// PackingOptions say how far a packing plan goes.
type PackingOptions struct {
	MoveRules
	// Threshold is the part of a node's GPUs, and of a card, 0 to 1, that may be
	// in use if Pods are to leave it. What is used more stays as it is.
	Threshold float64
	// MinGain is what a step has to gain for each unit of cost: see Packing.Gain.
	MinGain float64
}

// Packing is a set of moves after which less is fragmented.
type Packing struct {
	// Moves are in an order in which each can be carried out when its turn comes
	// (see Turns).
	Moves []Move
	Cost  float64
	// Gain is what the moves are worth, in GPUs. A GPU of which all is free
	// counts as one, and again as the part of its node that is free with it, and
	// again, if nobody uses the node's GPUs, as the part of each of the node's
	// domains that is as free. So a GPU is worth the more the larger the tasks
	// that may have it.
	Gain float64
	// GPUs is how many more are free as a whole.
	GPUs int
	// Nodes and Domains are the names of those whose GPUs nobody uses any more.
	Nodes   []string
	Domains []string
}

// maxPackingPasses bounds how often all nodes are looked at. Moves of one pass may
// be what another node waited for.
const maxPackingPasses = 3

// Pack finds moves that give back whole GPUs, nodes and domains, and changes
// nothing. It is greedy: it empties cards and nodes that are used little, those
// used least first, and swaps Pods where a node is filled better by a larger one.
// Each step is tried on the cluster's real states and only taken if it gains
// enough for its cost, keeps the limits, and leaves neither fewer whole GPUs nor
// fewer unused nodes or domains than before. No Pod moves twice.
func (c *Cluster) Pack(options PackingOptions) (*Packing, error) {
	if options.Threshold < 0 || options.Threshold > 1 {
		return nil, fmt.Errorf("threshold: must be 0 to 1, is %g", options.Threshold)
	}
	p := c.packer(&options)
	defer p.restore()
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
	p.tell(before)
	return p.result, nil
}

// donors are the nodes that are used, but not too much, those used least first.
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

// used is the part of a node's GPUs that is in use.
func (p *packer) used(n *node) float64 {
	cards := n.sound()
	if cards == 0 {
		return 0
	}
	return 1 - float64(n.state.percent)/float64(cards*Card)
}

// sound counts the GPUs that are not broken.
func (n *node) sound() int {
	count := 0
	for i := range n.GPUs {
		if !n.GPUs[i].Broken {
			count++
		}
	}
	return count
}

// idle reports whether nobody uses the GPUs of a node that has some. Other than for a
// State, broken ones do not count: they can't be given back, nor be in the way.
func (n *node) idle() bool {
	return n.state.whole > 0 && n.state.whole == n.sound()
}

// unused is what nobody uses: how many whole GPUs, which nodes and domains.
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

// tell says what has been given back.
func (p *packer) tell(before unused) {
	after := p.unused()
	p.result.GPUs = after.gpus - before.gpus
	for n := range after.nodes {
		if !before.nodes[n] {
			p.result.Nodes = append(p.result.Nodes, n.Name)
		}
	}
	for d := range after.domains {
		if !before.domains[d] {
			p.result.Domains = append(p.result.Domains, d.Name)
		}
	}
	slices.Sort(p.result.Nodes)
	slices.Sort(p.result.Domains)
}
