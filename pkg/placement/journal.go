// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

// journal notes what was placed and removed, so that it can be undone.
type journal struct {
	entries []entry
	// depth counts the trials under way.
	depth int
}

type entry struct {
	pod    *Pod
	placed bool
}

func (j *journal) note(pod *Pod, placed bool) {
	if j.depth > 0 {
		j.entries = append(j.entries, entry{pod: pod, placed: placed})
	}
}

// Try calls do, which may place and remove Pods, and then undoes all that unless
// do returns true. Trials may be nested. Nodes must not change meanwhile.
func (c *Cluster) Try(do func() (keep bool)) {
	begin := len(c.journal.entries)
	c.journal.depth++
	keep := do()
	c.journal.depth--
	if !keep {
		c.undo(begin)
	}
	if c.journal.depth == 0 {
		c.journal.entries = c.journal.entries[:0]
	}
}

// undo undoes all entries from a place on, the last first.
func (c *Cluster) undo(begin int) {
	for i := len(c.journal.entries) - 1; i >= begin; i-- {
		one := c.journal.entries[i]
		sign := 1
		if one.placed {
			sign = -1
		}
		c.put(c.nodes[one.pod.Node], one.pod, sign)
	}
	c.journal.entries = c.journal.entries[:begin]
}
