// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"maps"
	"slices"
)

// Share is what decides about a queue's fair share.
type Share struct {
	// Name is unique; Parent is the name of another queue, or empty.
	Name, Parent string
	// Weight is relative to the queue's siblings; 0 counts as 1.
	Weight float64
	// Usage is the decayed GPU time of the queue's own jobs, without its children's, in any
	// unit that is the same for all.
	Usage float64
	// Waits is true if the queue has waiting jobs of its own.
	Waits bool
}

// Factors returns the fair-share factor of each queue: its part of all usage, divided by the
// part that it is due. 1 means that it has had exactly its due, less that it should go
// before others. If nothing was used, all factors are 1.
//
// What is due is shared out from the top: siblings share what their parent is due by their
// weights, and only those count that have used something or wait, themselves or their
// descendants. The due of an idle queue goes to its siblings first, then to those of its
// parent, as in Slurm's Fair Tree. A queue's own jobs and its children are like siblings: the
// queue's jobs count with its weight. A parent that is unknown, or that is a descendant of the
// queue, counts as none.
func Factors(queues []Share) map[string]float64 {
	t := newShareTree(queues)
	factors := make(map[string]float64, len(queues))
	total := 0.0
	for _, root := range t.roots {
		total += t.sum(root)
	}
	for i := range queues {
		factors[queues[i].Name] = 1
	}
	if total > 0 {
		t.shareOut(t.roots, 1, total, factors)
	}
	return factors
}

// shareTree is the queues as a tree. Those that do not count are left out when shared out.
type shareTree struct {
	byName   map[string]*Share
	children map[string][]string
	roots    []string
	usage    map[string]float64 // of a queue with its descendants
	counts   map[string]bool
}

func newShareTree(queues []Share) *shareTree {
	t := &shareTree{
		byName: make(map[string]*Share, len(queues)), children: map[string][]string{},
		usage: make(map[string]float64, len(queues)), counts: make(map[string]bool, len(queues)),
	}
	for i := range queues {
		t.byName[queues[i].Name] = &queues[i]
	}
	for _, name := range slices.Sorted(maps.Keys(t.byName)) {
		if parent := t.byName[name].Parent; t.isChild(name) {
			t.children[parent] = append(t.children[parent], name)
		} else {
			t.roots = append(t.roots, name)
		}
	}
	return t
}

// isChild reports whether a queue has a parent that is known and not one of its
// descendants.
func (t *shareTree) isChild(name string) bool {
	at := t.byName[name]
	for range len(t.byName) {
		if at = t.byName[at.Parent]; at == nil {
			break
		}
		if at.Name == name {
			return false
		}
	}
	return t.byName[t.byName[name].Parent] != nil
}

// sum computes the usage of a queue with its descendants, and which of them count.
func (t *shareTree) sum(name string) float64 {
	q := t.byName[name]
	usage, counts := q.Usage, q.Usage > 0 || q.Waits
	for _, child := range t.children[name] {
		usage += t.sum(child)
		counts = counts || t.counts[child]
	}
	t.usage[name], t.counts[name] = usage, counts
	return usage
}

// shareOut shares out a part of the whole between siblings.
func (t *shareTree) shareOut(siblings []string, due, total float64, factors map[string]float64) {
	weights := 0.0
	for _, name := range siblings {
		if t.counts[name] {
			weights += t.byName[name].weight()
		}
	}
	for _, name := range siblings {
		if t.counts[name] {
			t.descend(name, due*t.byName[name].weight()/weights, total, factors)
		}
	}
}

// descend shares out what a queue is due between its own jobs and its children.
func (t *shareTree) descend(name string, due, total float64, factors map[string]float64) {
	q := t.byName[name]
	if own := q.Usage > 0 || q.Waits; own {
		weights := q.weight()
		for _, child := range t.children[name] {
			if t.counts[child] {
				weights += t.byName[child].weight()
			}
		}
		part := due * q.weight() / weights
		factors[name] = q.Usage / total / part
		due -= part
	} else {
		factors[name] = t.usage[name] / total / due
	}
	t.shareOut(t.children[name], due, total, factors)
}

func (s *Share) weight() float64 {
	if s.Weight <= 0 {
		return 1
	}
	return s.Weight
}
