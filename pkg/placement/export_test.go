// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// What tests outside of the package see of its inside. They are outside so that
// they can use the packing policy, which imports this package.

// StateOf returns the State of a node.
func (c *Cluster) StateOf(node string) *State { return c.nodes[node].state }

// Known is how many States the cluster keeps.
func (c *Cluster) Known() int { return len(c.states) }

// Kinds is how many kinds of nodes the cluster keeps.
func (c *Cluster) Kinds() int { return len(c.kinds) }

// SweepAt sets the number of States at which those without nodes are forgotten.
func (c *Cluster) SweepAt(states int) { c.sweepAt = states }

// Fit is why a State can't take a request.
func (s *State) Fit(r *Request) Reason { return s.fit(r) }

// Often is how many Pods of a request a State can take.
func (s *State) Often(r *Request) int { return s.often(r) }

// Reasons are all reasons.
func Reasons() []Reason {
	list := make([]Reason, reasons)
	for i := range list {
		list[i] = Reason(i)
	}
	return list
}
