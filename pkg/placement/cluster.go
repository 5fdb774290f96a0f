// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
)

// Cluster is all nodes and the Pods that run on them. It is not safe for concurrent use.
type Cluster struct {
	policy Policy
	root   *Domain
	nodes  map[string]*node
	// hosts are the nodes by hostname.
	hosts map[string][]*node
	pods  map[string]*Pod
	// requests are keyed by Shape.Key, and requestSize is the sum of their sizes; sweeps counts how often those were
	// dropped that nobody used.
	requests    interned[Request]
	requestSize int
	sweeps      uint64
	kinds       map[string]*kind
	// selectors are keyed by Selector.Key.
	selectors *interned[selector]
	// preferences are keyed by Preference.Key; tolerance is what they may cost.
	preferences *interned[preference]
	tolerance   float64
	states      map[string]*State
	// sweepAt and sweepKindsAt are the numbers of States and kinds at which those without
	// nodes are dropped; kindIDs counts all kinds ever created.
	sweepAt      int
	sweepKindsAt int
	kindIDs      int
	journal      journal
	// observer is told about changes; nil for none.
	observer Observer
	// search is what the last decision looked at, and searched is true once it has looked.
	search   Search
	searched bool
	// imagined is for explanations.
	imagined imagined
	// key, scratch, order and amounts are buffers for building keys and States.
	key     []byte
	scratch []int8
	order   []int
	amounts []int64
}

// node is a Node and its free capacity.
type node struct {
	Node
	layout layout
	domain *Domain
	state  *State
	resources
	// order maps the State's positions to the indices of cards.
	order []int
	pods  map[string]*Pod
	// slack is what the node has beyond the least of its kind.
	slack slack
	// hiddenIn is the State in which the node was taken out of all domains: see hide. Nil
	// for a node that is in them.
	hiddenIn *State
}

// NewCluster returns an empty cluster that places Pods according to a policy.
func NewCluster(policy Policy) *Cluster {
	return &Cluster{
		policy: policy, root: newDomain("", 0, nil), nodes: map[string]*node{}, hosts: map[string][]*node{}, pods: map[string]*Pod{},
		selectors: &interned[selector]{}, preferences: &interned[preference]{},
		kinds: map[string]*kind{}, states: map[string]*State{}, sweepAt: minStates, sweepKindsAt: minKinds,
	}
}

// SetNode adds or updates a node. Its Pods stay.
func (c *Cluster) SetNode(described Node) error {
	if err := described.validate(); err != nil {
		return err
	}
	c.imagined.touch(described.Name)
	described.GPUs = slices.Clone(described.GPUs)
	described.Domains = slices.Clone(described.Domains)
	described.Others = slices.Clone(described.Others)
	n := c.nodes[described.Name]
	var pods map[string]*Pod
	var before *Node
	if n == nil {
		n = &node{pods: map[string]*Pod{}}
	} else {
		if c.observer != nil {
			old := n.Node
			before = &old
		}
		n.domain.remove(n, n.state)
		c.removeHost(n)
		pods = n.pods
	}
	n.Node = described
	n.layout = c.layoutOf(&n.Node)
	n.freeAll()
	for _, pod := range pods {
		n.take(&pod.Use)
	}
	left := n.domain
	n.domain = c.root
	for _, name := range n.Domains {
		n.domain = n.domain.child(name)
	}
	c.nodes[n.Name] = n
	c.addHost(n)
	c.updateState(n)
	n.domain.add(n)
	if left != nil {
		left.prune()
	}
	if c.observer != nil {
		after := described
		c.observer.NodeSet(before, &after, n.layout.kind.id)
	}
	return nil
}

// RemoveNode removes a node and its Pods.
func (c *Cluster) RemoveNode(name string) {
	n := c.nodes[name]
	if n == nil {
		return
	}
	c.imagined.touch(name)
	n.domain.remove(n, n.state)
	n.domain.prune()
	c.removeHost(n)
	for name, pod := range n.pods {
		delete(c.pods, name)
		if c.observer != nil {
			c.observer.PodRemoved(pod)
		}
	}
	delete(c.nodes, name)
	if c.observer != nil {
		described := n.Node
		c.observer.NodeRemoved(&described)
	}
}

// Place puts a Pod on its node. It may overcommit the node, as happens in real clusters;
// nothing is then free of the overcommitted resource.
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
	pod.Others = slices.Clone(pod.Others)
	c.add(&pod)
	c.changed(&pod, true)
	return nil
}

// Remove removes a Pod. An unknown Pod is not an error.
func (c *Cluster) Remove(name string) {
	pod := c.pods[name]
	if pod == nil {
		return
	}
	c.drop(pod)
	c.changed(pod, false)
}

// add puts a Pod on its node.
func (c *Cluster) add(pod *Pod) {
	n := c.nodes[pod.Node]
	n.pods[pod.Name], c.pods[pod.Name] = pod, pod
	c.take(n, &pod.Use)
}

// drop removes a Pod from its node.
func (c *Cluster) drop(pod *Pod) {
	n := c.nodes[pod.Node]
	delete(n.pods, pod.Name)
	delete(c.pods, pod.Name)
	c.give(n, &pod.Use)
}

// take allocates a Pod's resources on a node.
func (c *Cluster) take(n *node, use *Use) {
	before := n.state
	n.take(use)
	c.reindex(n, before)
}

// give releases a Pod's resources on a node.
func (c *Cluster) give(n *node, use *Use) {
	before := n.state
	n.give(use)
	c.reindex(n, before)
}

// reindex updates the State of a node whose free resources have changed, and the indexes
// of its domains.
func (c *Cluster) reindex(n *node, before *State) {
	c.updateState(n)
	if n.state != before && n.hiddenIn == nil {
		n.domain.remove(n, before)
		n.domain.add(n)
	}
}

// updateState sets the State of a node to that of its free resources.
func (c *Cluster) updateState(n *node) {
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
	n.state = c.state(n.layout.kind, c.rest(n), byPosition)
}
