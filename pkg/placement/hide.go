// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// hide takes a node out of all domains, so that nothing is placed there, until it is shown.
// Pods on it may change meanwhile, the node itself may not. It reports whether the node was
// in its domains.
func (c *Cluster) hide(n *node) bool {
	if n == nil || n.hiddenIn != nil {
		return false
	}
	n.domain.remove(n, n.state)
	n.hiddenIn = n.state
	n.state.users++ // so that it is not swept
	return true
}

// show puts a hidden node back. Many of them come back the fastest in the reverse order, as
// the lists of nodes by name then grow at their beginning.
func (c *Cluster) show(n *node) {
	before := n.hiddenIn
	n.hiddenIn = nil
	before.users--
	if n.state != before {
		c.updateState(n) // the present one may have been swept
	}
	n.domain.add(n)
}

// except hides nodes until restore is called. Nodes that are unknown or hidden already are
// ignored.
func (c *Cluster) except(names []string) (restore func()) {
	var out []*node
	for _, name := range names {
		if n := c.nodes[name]; c.hide(n) {
			out = append(out, n)
		}
	}
	return func() {
		for _, n := range slices.Backward(out) {
			c.show(n)
		}
	}
}
