// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// disruptions is what users and faults have done to objects: what the processes under test need not
// answer for. All of it is excused for a limited time, or until something happens: an excuse that
// lasts hides what comes after it.
type disruptions struct {
	// intents is when users last intended to do something to a task, by its name and by the verb.
	intents map[types.NamespacedName]map[string]time.Duration
	// lastKills is when each process was killed last.
	lastKills map[string]time.Duration
	// crds is when CRDs were last deleted: when that was over, or began if it is not.
	crds map[string]time.Duration
	// cordoned is when each node was last seen cordoned.
	cordoned map[string]time.Duration
}

func newDisruptions() disruptions {
	return disruptions{
		intents: map[types.NamespacedName]map[string]time.Duration{}, lastKills: map[string]time.Duration{},
		crds: map[string]time.Duration{}, cordoned: map[string]time.Duration{},
	}
}

func (d *disruptions) intend(intent *history.Intent, now time.Duration) {
	key := types.NamespacedName{Namespace: intent.Namespace, Name: intent.Name}
	if d.intents[key] == nil {
		d.intents[key] = map[string]time.Duration{}
	}
	d.intents[key][intent.Verb] = now
}

// intended reports whether a user has intended one of the verbs for a task since a time.
func (d *disruptions) intended(key types.NamespacedName, since time.Duration, verbs ...string) bool {
	for _, verb := range verbs {
		if at, did := d.intents[key][verb]; did && at >= since {
			return true
		}
	}
	return false
}

func (d *disruptions) begin(fault *history.Fault, now time.Duration) {
	switch fault.Kind {
	case FaultKill, FaultSkew:
		d.lastKills[fault.Target] = now
	case FaultCRD:
		d.crds[fault.Target] = now
	}
}

func (d *disruptions) end(fault *history.Fault, now time.Duration) {
	if fault.Kind == FaultCRD {
		d.crds[fault.Target] = now
	}
}

// node follows a node. Of one that is cordoned no more, the last moment counts in which it was.
func (d *disruptions) node(before, node *corev1.Node, now time.Duration) {
	if node.Spec.Unschedulable || before != nil && before.Spec.Unschedulable {
		d.cordoned[node.Name] = now
	}
}

// intentGrace is how long after a user's intent its consequences may come: the request is repeated while
// the API server is down, and gpu-controller may be down afterwards.
const intentGrace = 2 * time.Minute

// intendedLately reports whether a user has intended one of the verbs for a task a short while ago.
func (w *world) intendedLately(key types.NamespacedName, verbs ...string) bool {
	return w.disruptions.intended(key, w.elapsed-intentGrace, verbs...)
}

// The CRDs of tasks and of plans.
const (
	crdTasks = "gputasks.falldio.com"
	crdPlans = "moveplans.falldio.com"
)

// crdDeletionGrace is how long after the deletion of a CRD its objects and what they own may disappear.
// The garbage collector of Kubernetes looks for kinds that are new, or gone, every 30 s.
const crdDeletionGrace = 90 * time.Second

// crdDeleted reports whether a CRD is being deleted with all its objects, or was a short while ago.
func (w *world) crdDeleted(name string) bool {
	for _, fault := range w.active {
		if fault.Kind == FaultCRD && fault.Target == name {
			return true
		}
	}
	at, deleted := w.disruptions.crds[name]
	return deleted && w.elapsed < at+crdDeletionGrace
}

// crdEverDeleted reports whether a CRD was ever deleted.
func (d *disruptions) crdEverDeleted(name string) bool {
	_, deleted := d.crds[name]
	return deleted
}

// cordonGrace is how long after the end of a cordon gpu-controller may act on it.
const cordonGrace = time.Minute

// cordonedLately reports whether a node is cordoned, or was a short while ago.
func (w *world) cordonedLately(name string) bool {
	if node := w.nodes[name]; node != nil && node.Spec.Unschedulable {
		return true
	}
	at, cordoned := w.disruptions.cordoned[name]
	return cordoned && w.elapsed < at+cordonGrace
}
