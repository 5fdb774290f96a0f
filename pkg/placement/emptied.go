// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// emptied is the nodes of a cluster with nothing running on them. It is made when it is
// first asked for, and follows the cluster from then on: on a large one, making it takes
// far longer than any question about it.
type emptied struct {
	cluster *Cluster
	// stale are the nodes that were set or removed since it was last asked for.
	stale map[string]bool
}

// touch records that a node was set or removed.
func (e *emptied) touch(node string) {
	if e.cluster != nil {
		e.stale[node] = true
	}
}

// emptied returns a cluster of the same nodes on which nothing runs. It is valid until the
// next node is set or removed, and not to be changed.
func (c *Cluster) emptied() *Cluster {
	e := &c.empty
	if e.cluster == nil {
		e.cluster, e.stale = NewCluster(firstFit{}), make(map[string]bool, len(c.nodes))
		// Its nodes are of the same kinds, so that selectors are evaluated once for both.
		e.cluster.kinds, e.cluster.selectors, e.cluster.preferences = c.kinds, c.selectors, c.preferences
		for name := range c.nodes {
			e.stale[name] = true
		}
	}
	for name := range e.stale {
		if n := c.nodes[name]; n != nil {
			_ = e.cluster.SetNode(n.Node) // it was valid before
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
