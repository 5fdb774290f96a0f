// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math"
	"slices"
)

// Fit returns why a node can't take one Pod of a request, or Fits.
func (c *Cluster) Fit(node string, r *Request) (Reason, error) {
	n := c.nodes[node]
	if n == nil {
		return Fits, fmt.Errorf("there is no node %q", node)
	}
	return n.fit(r), nil
}

// ClosedTo reports whether a node is closed to Pods of a request that it suits otherwise, whatever it has.
func ClosedTo(c *Cluster, node string, r *Request) bool {
	n := c.nodes[node]
	return n != nil && n.layout.kind.admits(r).Closed()
}

// Ever reports whether some node could take a request if it were empty.
func (c *Cluster) Ever(r *Request) bool {
	if r.named() {
		return slices.ContainsFunc(c.root.namedNodes(r), func(n *node) bool { return n.fitEmpty(r) == Fits })
	}
	return slices.ContainsFunc(c.root.classes, func(members *class) bool {
		k := members.state.kind
		switch {
		case k.fit(r, &k.most) != Fits:
			return false
		case len(r.Nodes) == 0 && (!k.unequal || k.fit(r, &slack{}) == Fits):
			return true
		default:
			return slices.ContainsFunc(members.nodes, func(n *node) bool { return n.fitEmpty(r) == Fits })
		}
	})
}

// Ranked is a node and the cost of a request there.
type Ranked struct {
	Node string
	Cost float64
}

// Rank returns all nodes of a domain that can take a request, the best first. The order
// is total: equal costs are sorted by preference, then by name.
func (c *Cluster) Rank(r *Request, within *Domain) []Ranked {
	c.policy.Begin(c, r)
	var candidates []choice
	within.canTake(r, len(c.nodes), func(n *node) {
		candidates = append(candidates, choice{node: n, cost: c.cost(c.offer(n.state, r), n.state, r)})
	})
	c.search, c.searched = Search{Nodes: within.nodes, Room: len(candidates)}, true
	c.sort(candidates, r)
	var list []Ranked
	for _, candidate := range candidates {
		list = append(list, Ranked{Node: candidate.node.Name, Cost: candidate.cost})
	}
	return list
}

// cost returns what an offer costs at this decision, rounded so that ties are exact.
func (c *Cluster) cost(o *offer, s *State, r *Request) float64 {
	return math.Round((o.cost+c.policy.Surcharge(r, s))/tie) * tie
}
