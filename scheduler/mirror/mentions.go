// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"iter"
	"maps"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Pods may mention any label and any resource, as many as they like. What they mention costs time only on nodes that
// have it, and is forgotten soon after nobody mentions it any more.

// census counts the nodes of the snapshot that have each label, and that list each resource.
type census struct {
	labels    map[string]int
	resources map[corev1.ResourceName]int
	// listed are the resources that any node has listed so far. It is replaced, not changed.
	listed atomic.Pointer[map[string]bool]
}

func newCensus() *census {
	c := &census{labels: map[string]int{}, resources: map[corev1.ResourceName]int{}}
	c.listed.Store(&map[string]bool{})
	return c
}

// replace counts a node as it is, and no longer as it was; either is nil if there is no such node.
func (c *census) replace(before, after *corev1.Node) {
	if before != nil {
		countKeys(c.labels, before.Labels, -1)
		countKeys(c.resources, before.Status.Allocatable, -1)
	}
	if after == nil {
		return
	}
	countKeys(c.labels, after.Labels, 1)
	countKeys(c.resources, after.Status.Allocatable, 1)
	known := *c.listed.Load()
	for name := range after.Status.Allocatable {
		if !known[string(name)] && snapshot.Lists(after, string(name)) {
			known = maps.Clone(known)
			known[string(name)] = true
			c.listed.Store(&known)
		}
	}
}

// countKeys adds a number to the counts of all keys of a map.
func countKeys[K comparable, V any](counts map[K]int, keys map[K]V, number int) {
	for key := range keys {
		if counts[key] += number; counts[key] == 0 {
			delete(counts, key)
		}
	}
}

// isListed reports whether any node has listed a resource so far. It needs no lock.
func (c *census) isListed(resource string) bool { return (*c.listed.Load())[resource] }

// Watch makes the engine track the labels and resources that a shape refers to; known is false if there are nodes that
// have to be updated for that. It must be called before the shape is used, and takes effect with the next Refresh. They
// are tracked until Forget finds nobody who uses them.
func (m *Mirror) Watch(shape *placement.Shape) (known bool) {
	m.lock()
	defer m.unlock()
	return !m.outdate(m.view.Track(shape))
}

// outdate has the nodes described anew, with the next Refresh, that have any of some labels or resources. It reports
// whether there are any.
func (m *Mirror) outdate(part snapshot.Tracked) (found bool) {
	maps.DeleteFunc(part.Labels, func(key string, _ map[string]bool) bool {
		return m.census.labels[key] == 0 && key != snapshot.NodeNameKey
	})
	maps.DeleteFunc(part.Resources, func(name string, _ bool) bool { return m.census.resources[corev1.ResourceName(name)] == 0 })
	if part.IsEmpty() {
		return false
	}
	for _, n := range m.nodes {
		if n.ours && n.object != nil && part.On(n.object) {
			n.outdated, found = true, true
		}
	}
	if found {
		m.view.Edition++
	}
	return found
}

// redescribe updates what the engine knows of a node's labels and resources.
func (m *Mirror) redescribe(n *node) {
	n.outdated = false
	described := n.described
	m.view.Redescribe(&described, n.object)
	if sameNode(&described, &n.described) {
		return
	}
	m.version++
	m.freed++
	m.nodesVersion++
	if err := m.cluster.SetNode(described); err != nil {
		m.logger.Error(err, "A node can't be used", "node", n.object.Name)
		m.dropNode(n)
		return
	}
	n.described = described
}

// Counted returns a shape without the resources that no node has listed so far: kube-scheduler may have them provided
// by resource claims, and decides about them. It may be called within With or For.
func (m *Mirror) Counted(shape placement.Shape) placement.Shape {
	return snapshot.Counted(shape, m.census.isListed)
}

// Forget drops what was kept for Pods that are gone: labels and resources that none of some shapes refers to, and that
// the demand which was learned does not refer to, and shapes that nobody has asked for since the last call.
func (m *Mirror) Forget(used iter.Seq[*placement.Shape]) {
	m.lock()
	defer m.unlock()
	for shape := range used {
		m.outdate(m.view.Track(shape))
	}
	for _, one := range m.policy.Mix().Popular() {
		m.outdate(m.view.TrackDemand(&one.Request.Shape))
	}
	m.outdate(m.view.Sweep())
	m.cluster.SweepRequests(m.policy.Remembers)
}

// Size is how much is kept for what Pods have mentioned.
type Size struct {
	// Mentions are labels, values of labels and resources, Shapes different needs, which take Bytes.
	Mentions, Shapes, Bytes int
}

// Size returns how much is kept.
func (m *Mirror) Size() Size {
	m.lockEngine()
	defer m.unlockEngine()
	shapes, bytes := m.cluster.Requests()
	return Size{Mentions: m.view.Size(), Shapes: shapes, Bytes: bytes}
}
