// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import "slices"

// journal records placements and removals, so that they can be undone.
type journal struct {
	entries []TrialChange
	// depth is the number of nested trials in progress.
	depth int
}

// changed records a change of a trial, or tells the observer about any other.
func (c *Cluster) changed(pod *Pod, placed bool) {
	switch {
	case c.journal.depth > 0:
		c.journal.entries = append(c.journal.entries, TrialChange{Pod: pod, Placed: placed})
	case c.observer == nil:
	case placed:
		c.observer.PodPlaced(pod)
	default:
		c.observer.PodRemoved(pod)
	}
}

// Try calls do, which may place and remove Pods, and undoes its changes unless it returns
// true. Trials may be nested. Nodes must not change meanwhile.
func (c *Cluster) Try(do func() (keep bool)) {
	begin := len(c.journal.entries)
	c.journal.depth++
	keep := do()
	c.journal.depth--
	if !keep {
		c.undo(begin)
	}
	if c.journal.depth == 0 {
		kept := c.journal.entries
		c.journal.entries = c.journal.entries[:0]
		for i := range kept {
			c.changed(kept[i].Pod, kept[i].Placed)
		}
	}
}

// undo undoes all entries from begin on, last first.
func (c *Cluster) undo(begin int) {
	for _, undone := range slices.Backward(c.journal.entries[begin:]) {
		if undone.Placed {
			c.drop(undone.Pod)
		} else {
			c.add(undone.Pod)
		}
	}
	c.journal.entries = c.journal.entries[:begin]
}
