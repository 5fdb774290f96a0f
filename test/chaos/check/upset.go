// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// upset is what users and faults have done to objects: what the processes under test need not answer
// for.
type upset struct {
	// verbs is what users have intended to do to tasks, by their names.
	verbs map[types.NamespacedName]map[string]bool
	// lastKills is when each process was killed last.
	lastKills map[string]time.Duration
	// nodes is when each node was last deleted, or was not ready.
	nodes map[string]time.Duration
	// crds is when CRDs were deleted, namespaces are the namespaces that were.
	crds       map[string]time.Duration
	namespaces map[string]bool
}

func newUpset() upset {
	return upset{
		verbs: map[types.NamespacedName]map[string]bool{}, lastKills: map[string]time.Duration{}, nodes: map[string]time.Duration{},
		crds: map[string]time.Duration{}, namespaces: map[string]bool{},
	}
}

func (u *upset) intend(intent *history.Intent) {
	key := types.NamespacedName{Namespace: intent.Namespace, Name: intent.Name}
	if u.verbs[key] == nil {
		u.verbs[key] = map[string]bool{}
	}
	u.verbs[key][intent.Verb] = true
}

// did reports whether a user has intended one of the verbs for an object.
func (u *upset) did(key types.NamespacedName, verbs ...string) bool {
	for _, verb := range verbs {
		if u.verbs[key][verb] {
			return true
		}
	}
	return false
}

func (u *upset) begin(fault *history.Fault, now time.Duration) {
	switch fault.Kind {
	case FaultKill, FaultSkew:
		u.lastKills[fault.Target] = now
	case FaultCRD:
		u.crds[fault.Target] = now
	case FaultNamespace:
		u.namespaces[fault.Target] = true
	case FaultDelete, FaultPartition, FaultNotReady:
		u.nodes[fault.Target] = now
	}
}

// node follows a node, which is lost when it is deleted, or is ready no more. A new node is not ready yet.
func (u *upset) node(before, node *corev1.Node, gone bool, now time.Duration) {
	if gone || before != nil && isReady(before) && !isReady(node) {
		u.nodes[node.Name] = now
	}
}

// The CRDs of tasks and of plans.
const (
	crdTasks = "gputasks.falldio.com"
	crdPlans = "moveplans.falldio.com"
)

// forgetting is how long after the deletion of a CRD its objects and what they own may disappear. The
// garbage collector of Kubernetes looks for kinds that are new, or gone, every 30 s.
const forgetting = 90 * time.Second

// tasksForgotten reports whether all tasks were deleted with their CRD a short while ago.
func (w *world) tasksForgotten() bool {
	at, deleted := w.upset.crds[crdTasks]
	return deleted && w.elapsed < at+forgetting
}

// plansForgotten reports whether plans were ever deleted with their CRD.
func (u *upset) plansForgotten() bool {
	_, deleted := u.crds[crdPlans]
	return deleted
}

// mourning is how long after a node was lost its Pods may disappear: they tolerate a node that is not
// ready for five minutes.
const mourning = 6 * time.Minute

// lostNode reports whether a node was deleted, or became not ready, a while ago.
func (w *world) lostNode(name string) bool {
	at, lost := w.upset.nodes[name]
	return lost && w.elapsed < at+mourning
}

func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return node.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}
