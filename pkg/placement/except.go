// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// except removes nodes from all domains, so that nothing is placed there, until restore
// is called. Nodes that are unknown or removed already are ignored. Pods on the nodes may
// change meanwhile, the nodes themselves may not.
func (c *Cluster) except(names []string) (restore func()) {
	if len(names) == 0 {
		return func() {}
	}
	var out []*node
	for _, name := range names {
		n := c.nodes[name]
		if n == nil || n.out {
			continue
		}
		n.domain.remove(n, n.state)
		n.out = true
		out = append(out, n)
	}
	return func() {
		for _, n := range out {
			n.out = false
			c.updateState(n) // its State may have been swept
			n.domain.add(n)
		}
	}
}
