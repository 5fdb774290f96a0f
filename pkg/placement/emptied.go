// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// emptied is the nodes of a cluster with nothing running on them. It is made when it is
// first asked for, and follows the cluster from then on: on a large one, making it takes
// far longer than any question about it.
type emptied struct {
	cluster *Cluster
	// open is true if all of its nodes are open.
	open bool
	// stale are the nodes that were set or removed since it was last asked for.
	stale map[string]bool
}

// imagined are the nodes of a cluster with nothing running on them: as they are, and with those open that are closed.
type imagined struct{ empty, opened emptied }

// touch records that a node was set or removed.
func (i *imagined) touch(node string) {
	i.empty.touch(node)
	i.opened.touch(node)
}

func (e *emptied) touch(node string) {
	if e.cluster != nil {
		e.stale[node] = true
	}
}

// emptied returns a cluster of the same nodes on which nothing runs. It is valid until the
// next node is set or removed, and not to be changed.
func (c *Cluster) emptied() *Cluster { return c.imagined.empty.of(c) }

// fitsOpened reports whether a gang would fit if nothing ran and all nodes were open.
func fitsOpened(c *Cluster, g *Gang) bool {
	if !slices.ContainsFunc(c.root.classes, func(members *class) bool { return members.state.kind.closed }) {
		return false
	}
	c.imagined.opened.open = true
	return c.imagined.opened.of(c).helps(g)
}

func (e *emptied) of(c *Cluster) *Cluster {
	if e.cluster == nil {
		e.cluster, e.stale = NewCluster(firstFit{}), make(map[string]bool, len(c.nodes))
		e.cluster.selectors, e.cluster.preferences = c.selectors, c.preferences
		if !e.open { // its nodes are of the same kinds, so that selectors are evaluated once for both
			e.cluster.kinds = c.kinds
		}
		for name := range c.nodes {
			e.stale[name] = true
		}
	}
	for name := range e.stale {
		if n := c.nodes[name]; n != nil {
			described := n.Node
			described.Closed = described.Closed && !e.open
			_ = e.cluster.SetNode(described) // it was valid before
		} else {
			e.cluster.RemoveNode(name)
		}
	}
	clear(e.stale)
	return e.cluster
}

// firstFit is the policy for yes-or-no questions.
type firstFit struct{}

func (firstFit) Begin(*Cluster, *Request)           {}
func (firstFit) Epoch() uint64                      { return 0 }
func (firstFit) Price(Step) float64                 { return 0 }
func (firstFit) Surcharge(*Request, *State) float64 { return 0 }
