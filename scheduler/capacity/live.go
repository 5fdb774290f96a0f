// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package capacity

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/filters"
)

// liveCluster is the cluster as the informers show it, for the metrics about capacity: the
// mirror is only as recent as the last scheduling cycle. An event only records what it
// shows; sync brings the engine's cluster up to date, for those nodes alone that have
// changed. Its zero value is an empty cluster.
type liveCluster struct {
	mu    sync.Mutex
	nodes map[string]*liveNode
	// changed are the names of the nodes that cluster does not show yet as they are.
	changed map[string]struct{}

	// The rest belongs to the one goroutine that calls sync.
	cluster *placement.Cluster
	// edition is that of the view by which its nodes were translated.
	edition uint64
}

// liveNode is a node and the Pods on it.
type liveNode struct {
	// object is nil for a node that is not ours, or not known yet.
	object *corev1.Node
	pods   map[types.UID]*corev1.Pod
	// devices are the UUIDs of the GPUs that resource claims hold.
	devices []string
}

// syncBatch is for how many nodes sync holds the lock at a time, so that events don't have
// to wait for it.
const syncBatch = 64

// setNode records a node as it is; nil if it is gone or not ours.
func (l *liveCluster) setNode(name string, object *corev1.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[name]
	if n == nil && object == nil {
		return
	}
	n = l.node(name)
	before := n.object
	n.object = object
	if before == nil || object == nil || filters.AdmissionChanged(before, object) {
		l.changed[name] = struct{}{}
	}
	l.drop(name, n)
}

// setPod records a Pod that has a node as it is.
func (l *liveCluster) setPod(pod *corev1.Pod) {
	if podfacts.Ended(pod) {
		l.removePod(pod)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.node(pod.Spec.NodeName)
	before := n.pods[pod.UID]
	n.pods[pod.UID] = pod
	if before == nil || snapshot.ResourcesChanged(before, pod) {
		l.changed[pod.Spec.NodeName] = struct{}{}
	}
}

// has reports whether a Pod is there, and has not ended.
func (l *liveCluster) has(pod *corev1.Pod) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[pod.Spec.NodeName]
	return n != nil && n.pods[pod.UID] != nil
}

// removePod records that a Pod has ended or is gone.
func (l *liveCluster) removePod(pod *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.nodes[pod.Spec.NodeName]
	if n == nil || n.pods[pod.UID] == nil {
		return
	}
	delete(n.pods, pod.UID)
	l.changed[pod.Spec.NodeName] = struct{}{}
	l.drop(pod.Spec.NodeName, n)
}

// setDevices records which GPUs of a node resource claims hold.
func (l *liveCluster) setDevices(name string, uuids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.node(name)
	n.devices = uuids
	l.changed[name] = struct{}{}
	l.drop(name, n)
}

// node returns the node of a name, which may not be known yet: its Pods may come first.
func (l *liveCluster) node(name string) *liveNode {
	if l.nodes == nil {
		l.nodes, l.changed = map[string]*liveNode{}, map[string]struct{}{}
	}
	n := l.nodes[name]
	if n == nil {
		n = &liveNode{pods: map[types.UID]*corev1.Pod{}}
		l.nodes[name] = n
	}
	return n
}

// drop forgets a node of which nothing is left.
func (l *liveCluster) drop(name string, n *liveNode) {
	if n.object == nil && len(n.pods) == 0 && len(n.devices) == 0 {
		delete(l.nodes, name)
	}
}

// changedNode is a node that has changed, as it is now.
type changedNode struct {
	name   string
	object *corev1.Node
	pods   []*corev1.Pod
	// devices are the UUIDs of the GPUs that resource claims hold.
	devices []string
}

// sync returns the engine's cluster as it is now. The view is that by which nodes are
// translated.
func (l *liveCluster) sync(view *snapshot.NodeView) *placement.Cluster {
	if l.cluster == nil {
		l.cluster = placement.NewCluster(packing.New(packing.Default()))
	}
	for names := l.takeOutdated(view); len(names) > 0; names = names[min(syncBatch, len(names)):] {
		for _, one := range l.look(names[:min(syncBatch, len(names))]) {
			l.update(view, &one)
		}
	}
	l.cluster.SweepRequests(func(*placement.Request) bool { return false })
	return l.cluster
}

// takeOutdated returns the names of the nodes that have to be translated again since the
// last call.
func (l *liveCluster) takeOutdated(view *snapshot.NodeView) []string {
	if l.edition != view.Edition {
		l.edition = view.Edition
		l.markAll()
	}
	return l.takeChanged()
}

// markAll records that all nodes have to be translated again.
func (l *liveCluster) markAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name := range l.nodes {
		l.changed[name] = struct{}{}
	}
}

// takeChanged returns the names of the nodes that have changed since the last call.
func (l *liveCluster) takeChanged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := slices.Collect(maps.Keys(l.changed))
	clear(l.changed)
	return names
}

// look returns nodes as they are now.
func (l *liveCluster) look(names []string) []changedNode {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]changedNode, len(names))
	for i, name := range names {
		list[i].name = name
		if n := l.nodes[name]; n != nil {
			list[i].object, list[i].pods, list[i].devices = n.object, slices.Collect(maps.Values(n.pods)), n.devices
		}
	}
	return list
}

// update updates a node in the engine. The mirror logs what can't be read or counted.
func (l *liveCluster) update(view *snapshot.NodeView, one *changedNode) {
	l.cluster.RemoveNode(one.name)
	if one.object == nil {
		return
	}
	described, cards, _ := view.Node(one.object)
	if err := l.cluster.SetNode(described); err == nil {
		snapshot.Fill(l.cluster, &described, cards, one.pods, one.devices)
	}
}
