// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
)

// Cluster is all nodes and what runs on them. It is not safe for concurrent use.
type Cluster struct {
	policy   Policy
	root     *Domain
	nodes    map[string]*node
	pods     map[string]*Pod
	requests map[string]*Request
	kinds    map[string]*kind
	// selectors are by their key.
	selectors map[string]*selector
	states    map[string]*State
	// sweepAt and sweepKindsAt are how many States and kinds there are when those
	// without nodes are forgotten; kindIDs is how many kinds there ever were.
	sweepAt      int
	sweepKindsAt int
	kindIDs      int
	journal      journal
	// key and scratch are memory to build keys and States in.
	key     []byte
	scratch []int8
	order   []int
}

// node is a Node and what is free of it.
type node struct {
	Node
	layout layout
	domain *Domain
	state  *State
	cpu    int64
	memory int64
	slots  int
	// free is what is free of each card, in percent, by the card's index. What
	// is free of a broken card is kept, but nobody gets it.
	free []int32
	// order has the cards' indices by the State's positions.
	order []int
	pods  map[string]*Pod
	// out is true while the node is in no domain: see except.
	out bool
}

// NewCluster returns an empty cluster whose places are chosen by a policy.
func NewCluster(policy Policy) *Cluster {
	return &Cluster{
		policy: policy, root: newDomain("", 0, nil), nodes: map[string]*node{}, pods: map[string]*Pod{},
		requests: map[string]*Request{}, kinds: map[string]*kind{}, selectors: map[string]*selector{},
		states: map[string]*State{}, sweepAt: minStates, sweepKindsAt: minKinds,
	}
}

// SetNode adds a node, or changes one. What runs on it stays.
func (c *Cluster) SetNode(described Node) error {
	if err := described.validate(); err != nil {
		return err
	}
	described.GPUs = slices.Clone(described.GPUs)
	described.Domains = slices.Clone(described.Domains)
	n := c.nodes[described.Name]
	var pods map[string]*Pod
	if n == nil {
		n = &node{pods: map[string]*Pod{}}
	} else {
		n.domain.remove(n, n.state)
		pods = n.pods
	}
	n.Node = described
	n.layout = c.layoutOf(&n.Node)
	n.order = slices.Clone(n.layout.cards)
	n.cpu, n.memory, n.slots = n.CPU, n.Memory, n.Slots
	n.free = make([]int32, len(n.GPUs))
	for i := range n.free {
		n.free[i] = Card
	}
	for _, pod := range pods {
		n.take(&pod.Use, 1)
	}
	left := n.domain
	n.domain = c.root
	for _, name := range n.Domains {
		n.domain = n.domain.child(name)
	}
	c.nodes[n.Name] = n
	c.settle(n)
	n.domain.add(n)
	if left != nil {
		left.prune()
	}
	return nil
}

// RemoveNode removes a node and what runs on it.
func (c *Cluster) RemoveNode(name string) {
	n := c.nodes[name]
	if n == nil {
		return
	}
	n.domain.remove(n, n.state)
	n.domain.prune()
	for pod := range n.pods {
		delete(c.pods, pod)
	}
	delete(c.nodes, name)
}

// Place puts a Pod on its node. More than there is may be taken, as reality may
// be: the node then offers nothing.
func (c *Cluster) Place(pod Pod) error {
	n := c.nodes[pod.Node]
	switch {
	case n == nil:
		return fmt.Errorf("Pod %s: there is no node %q", pod.Name, pod.Node)
	case c.pods[pod.Name] != nil:
		return fmt.Errorf("Pod %s is placed already, on node %s", pod.Name, c.pods[pod.Name].Node)
	}
	for i, gpu := range pod.GPUs { // the node may have lost some since
		if gpu < 0 || gpu >= MaxCards || slices.Contains(pod.GPUs[:i], gpu) {
			return fmt.Errorf("Pod %s: GPUs: must be from 0 to %d, each once, are %v", pod.Name, MaxCards-1, pod.GPUs)
		}
	}
	if len(pod.GPUs) > 0 && (pod.Percent < 1 || pod.Percent > Card) {
		return fmt.Errorf("Pod %s: percent: must be 1 to %d, is %d", pod.Name, Card, pod.Percent)
	}
	pod.GPUs = slices.Clone(pod.GPUs)
	c.put(n, &pod, 1)
	c.journal.note(&pod, true)
	return nil
}

// Remove takes a Pod away. One that is not there is no error.
func (c *Cluster) Remove(name string) {
	pod := c.pods[name]
	if pod == nil {
		return
	}
	c.put(c.nodes[pod.Node], pod, -1)
	c.journal.note(pod, false)
}

// put places a Pod (sign 1) or removes it (-1).
func (c *Cluster) put(n *node, pod *Pod, sign int) {
	if sign > 0 {
		n.pods[pod.Name], c.pods[pod.Name] = pod, pod
	} else {
		delete(n.pods, pod.Name)
		delete(c.pods, pod.Name)
	}
	c.shift(n, &pod.Use, sign)
}

// shift takes what a Pod holds from a node (sign 1) or gives it back (-1).
func (c *Cluster) shift(n *node, use *Use, sign int) {
	before := n.state
	n.take(use, sign)
	c.resettle(n, before)
}

// resettle finds the State of a node again, which is in another one so far.
func (c *Cluster) resettle(n *node, before *State) {
	c.settle(n)
	if n.state != before && !n.out {
		n.domain.remove(n, before)
		n.domain.add(n)
	}
}

// take changes what is free by what a Pod holds, times sign.
func (n *node) take(use *Use, sign int) {
	n.cpu -= int64(sign) * use.CPU
	n.memory -= int64(sign) * use.Memory
	n.slots -= sign
	for _, gpu := range use.GPUs {
		if gpu < len(n.free) { // the node may have lost GPUs since
			n.free[gpu] -= int32(sign * use.Percent) //nolint:gosec // at most Card
		}
	}
}

// settle finds the State of a node.
func (c *Cluster) settle(n *node) {
	cards := len(n.free)
	c.scratch = slices.Grow(c.scratch[:0], 2*cards)[:2*cards]
	offered, byPosition := c.scratch[:cards], c.scratch[cards:]
	for i, free := range n.free {
		offered[i] = int8(max(free, 0)) //nolint:gosec // at most Card
		if n.GPUs[i].Broken {
			offered[i] = 0
		}
	}
	n.layout.kind.sortCards(n.order, offered)
	for position, card := range n.order {
		byPosition[position] = offered[card]
	}
	n.state = c.state(n.layout.kind, n.cpu, n.memory, n.slots, byPosition)
}
