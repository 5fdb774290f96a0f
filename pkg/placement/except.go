// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// except takes nodes out of all domains, so that nothing is placed there, until
// restore is called. Unknown names, and nodes that are out already, are ignored.
// What runs on the nodes may change meanwhile, the nodes may not.
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
			c.settle(n) // its State may have been forgotten
			n.domain.add(n)
		}
	}
}
