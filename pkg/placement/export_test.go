// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// Internals for the tests of package placement_test, which can use the packing policy;
// that imports this package.

// StateOf returns the State of a node.
func (c *Cluster) StateOf(node string) *State { return c.nodes[node].state }

// CapacityOf returns how many Pods of a request a node could take.
func (c *Cluster) CapacityOf(node string, r *Request) int {
	return c.nodes[node].capacity(r)
}

// FitOf returns why a node can't take a request, or Fits.
func (c *Cluster) FitOf(node string, r *Request) Reason { return c.nodes[node].fit(r) }

// Known returns the number of interned States.
func (c *Cluster) Known() int { return len(c.states) }

// Kinds returns the number of interned kinds of nodes.
func (c *Cluster) Kinds() int { return len(c.kinds) }

// Interned returns how many requests, selectors and preferences are kept.
func (c *Cluster) Interned() (requests, selectors, preferences int) {
	return len(c.requests.known), len(c.selectors.known), len(c.preferences.known)
}

// SweepAt sets the number of States at which those without nodes are dropped.
func (c *Cluster) SweepAt(states int) { c.sweepAt = states }

// Reasons returns all reasons.
func Reasons() []Reason {
	list := make([]Reason, reasons)
	for i := range list {
		list[i] = Reason(i)
	}
	return list
}
