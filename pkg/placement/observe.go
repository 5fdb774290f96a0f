// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"maps"
	"slices"
)

// Observer is told how a Cluster changes, in the order of the changes. What trials change is no
// change unless it is kept. What it is given must not be modified, and stays as it is: it may be
// kept.
type Observer interface {
	// NodeSet is called after a node was added, with before nil, or updated. kind is the State.Kind of the node.
	NodeSet(before, after *Node, kind int)
	// NodeRemoved is called after PodRemoved was called for all Pods of the node.
	NodeRemoved(node *Node)
	PodPlaced(pod *Pod)
	PodRemoved(pod *Pod)
}

// Observe sets the observer of the changes from now on; nil for none.
func (c *Cluster) Observe(observer Observer) { c.observer = observer }

// Each calls do for all nodes, and for all Pods. Of the nodes those come first whose kind was seen
// first: a Cluster to which they are added in this order numbers their kinds alike. Pods come in
// no order. Both may be kept, and must not be modified.
func (c *Cluster) Each(doNode func(node *Node, kind int), doPod func(*Pod)) {
	nodes := slices.SortedFunc(maps.Values(c.nodes), func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.layout.kind.id, b.layout.kind.id), cmp.Compare(a.Name, b.Name))
	})
	for _, n := range nodes {
		described := n.Node
		doNode(&described, n.layout.kind.id)
	}
	for _, pod := range c.pods {
		doPod(pod)
	}
}

// TrialChange is a Pod that a trial in progress has placed or removed.
type TrialChange struct {
	Pod    *Pod
	Placed bool
}

// TrialChanges returns what the trials in progress have changed so far, in order; nil outside of
// any.
func (c *Cluster) TrialChanges() []TrialChange {
	if c.journal.depth == 0 {
		return nil
	}
	return slices.Clone(c.journal.entries)
}

// Search is how much a decision looked at.
type Search struct {
	// Nodes were looked at, and Room of them had room for one Pod.
	Nodes, Room int
}

// LastSearch returns what the last Plan, Find or Rank looked at for its first Pod.
func (c *Cluster) LastSearch() Search { return c.search }

// noteSearch records the search for the first Pod of a decision.
func (c *Cluster) noteSearch(nodes, room int) {
	if c.searched {
		return
	}
	c.search, c.searched = Search{Nodes: nodes, Room: room}, true
}

// Empty describes an empty node of the State's kind: of two nodes of a kind it describes the same.
func (s *State) Empty() Node {
	k := s.kind
	n := Node{
		CPU: k.cpu, Memory: k.memory + min(k.most.memory, 1), Slots: k.slots, Others: slices.Clone(k.others),
		Model: k.model, Pool: k.pool, Traits: k.traits, Closed: k.closed,
	}
	for i := range k.most.others {
		n.Others[i].Value += min(k.most.others[i], 1) // else it would be of a kind without slack
	}
	for index, cell := range k.cells {
		group := -1
		if cell.linked {
			group = index
		}
		for position := cell.from; position < cell.to; position++ {
			n.GPUs = append(n.GPUs, GPU{Memory: k.memories[position], Group: group, NUMA: -1})
		}
	}
	return n
}

// EmptyState returns the State that a node would have while it is empty, without adding it.
func (c *Cluster) EmptyState(described Node) *State {
	described.Name = "described" // its name does not matter
	n := &node{Node: described}
	n.layout = c.layoutOf(&n.Node)
	n.freeAll()
	c.updateState(n)
	return n.state
}
