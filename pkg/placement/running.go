// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// Running returns a Pod that is placed, by its name.
func (c *Cluster) Running(name string) (pod Pod, runs bool) {
	its := c.pods[name]
	if its == nil {
		return Pod{}, false
	}
	pod = *its
	pod.GPUs = slices.Clone(its.GPUs)
	return pod, true
}

// Has reports whether a node has just these cards, and the rest, free.
func (c *Cluster) Has(node string, use *Use) bool {
	n := c.nodes[node]
	return n != nil && n.has(use)
}
