// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeproblems

import (
	"slices"
	"sync"
	"time"
)

// A node with a fault is the last choice for shortestFault, and twice as long after each
// further one, up to longestFault.
const (
	shortestFault = 30 * time.Second
	longestFault  = 10 * time.Minute
)

// faults are the nodes on which a Pod could not be bound after everybody had agreed, such as
// for a volume that can't be provisioned there. The reason may be the Pod's or the node's:
// such nodes are used if no others are, so that a broken one doesn't stop all that it
// attracts. It is safe for concurrent use; its zero value is empty.
type faults struct {
	mu     sync.Mutex
	byNode map[string]fault
}

type fault struct {
	count int
	until time.Time
}

// add records a fault of a node.
func (f *faults) add(node string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byNode == nil {
		f.byNode = map[string]fault{}
	}
	known := f.byNode[node]
	const doublings = 10 // enough for the longest
	f.byNode[node] = fault{count: known.count + 1, until: now.Add(min(shortestFault<<min(known.count, doublings), longestFault))}
}

// mend forgets the faults of a node: a Pod was bound there.
func (f *faults) mend(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byNode, node)
}

// nodes returns the nodes that are the last choice now, in order. Those whose time was over
// long ago are forgotten.
func (f *faults) nodes(now time.Time) (nodes []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for node, known := range f.byNode {
		switch {
		case now.Before(known.until):
			nodes = append(nodes, node)
		case now.Sub(known.until) > longestFault:
			delete(f.byNode, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}
