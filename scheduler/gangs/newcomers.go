// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"container/heap"

	corev1 "k8s.io/api/core/v1"
)

// newcomers are groups of which nobody has said yet why they have no place: they were never tried, not
// even by the scheduler before this one. Their namespaces take turns, so that one that creates
// thousands of groups at once does not keep the others from learning what their own wait for. Within a
// namespace, they are in the order of the queue.
type newcomers struct {
	// namespaces has those with newcomers only.
	namespaces map[string]*namespace
	// served counts the groups that were taken, and the namespaces that have come.
	served uint64
}

// namespace is the newcomers of a namespace.
type namespace struct {
	groupHeap
	// served is what the count was when the namespace was last served, or came.
	served uint64
}

// isNewcomer reports whether a group that has a leader is one.
func (g *Group) isNewcomer() bool { return g.retry.failedAt.IsZero() && !isExplained(g.leader.Pod()) }

// isExplained reports whether a Pod says why it has no place.
func isExplained(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodScheduled {
			return condition.Status == corev1.ConditionFalse && condition.Message != ""
		}
	}
	return false
}

// namespaceOf returns the namespace of a group.
func namespaceOf(g *Group) string {
	for _, m := range g.members {
		return m.Pod().Namespace
	}
	return ""
}

func (n *newcomers) add(g *Group) {
	g.retry.comesFrom = namespaceOf(g)
	of := n.namespaces[g.retry.comesFrom]
	if of == nil {
		n.served++
		of = &namespace{served: n.served, groupHeap: groupHeap{number: heaps - 1, before: func(a, b *Group) bool { return a.rank().Compare(b.rank()) < 0 }}}
		n.namespaces[g.retry.comesFrom] = of
	}
	heap.Push(of, g)
}

func (n *newcomers) remove(g *Group) {
	of := n.namespaces[g.retry.comesFrom]
	if of == nil {
		return
	}
	if of.remove(g); of.Len() == 0 {
		delete(n.namespaces, g.retry.comesFrom)
	}
}

// first returns the group that is to be taken next; nil if there is none.
func (n *newcomers) first() *Group {
	var next *namespace
	for _, of := range n.namespaces {
		if next == nil || of.served < next.served {
			next = of
		}
	}
	if next == nil {
		return nil
	}
	return next.first()
}

// take is called when the first one is taken, before it is removed.
func (n *newcomers) take(g *Group) {
	n.served++
	n.namespaces[g.retry.comesFrom].served = n.served
}

// reorder is called when the order of the queue has changed.
func (n *newcomers) reorder() {
	for _, of := range n.namespaces {
		heap.Init(of)
	}
}
