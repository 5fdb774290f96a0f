// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// Running returns a placed Pod by its name.
func (c *Cluster) Running(name string) (pod Pod, runs bool) {
	placed := c.pods[name]
	if placed == nil {
		return Pod{}, false
	}
	pod = *placed
	pod.GPUs = slices.Clone(placed.GPUs)
	pod.Others = slices.Clone(placed.Others)
	return pod, true
}

// Look returns a Pod without copying it; nil if it does not run. It must not be changed, and stays as it is when the
// Pod is removed.
func (c *Cluster) Look(name string) *Pod { return c.pods[name] }

// Has reports whether a node has exactly these cards, and the other resources, free.
func (c *Cluster) Has(node string, use *Use) bool {
	n := c.nodes[node]
	return n != nil && n.hasFree(use)
}
