// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// evictions looks at who evicts Pods that no plan moves: gpu-controller may do so from cordoned nodes, and
// gpu-scheduler if a gang has stayed incomplete.
type evictions struct {
	seen map[types.UID]bool
	// unplanned are the Pods that were evicted without a plan, by namespace and name. By whom, the API
	// server's audit log says later.
	unplanned map[string]unplanned
}

// unplanned is the eviction of a Pod that no plan moves.
type unplanned struct {
	node string
	// repair is true if that may be because of its node, and stays if its task forbids that.
	repair, stays bool
	// whole is true if as many Pods of its gang had nodes as must start together.
	whole bool
}

func newEvictions() *evictions {
	return &evictions{seen: map[types.UID]bool{}, unplanned: map[string]unplanned{}}
}

func (e *evictions) take(w *world, s *step) {
	switch {
	case s.pod != nil:
		e.follow(w, s.pod)
	case s.Request != nil && s.Request.Resource == "pods/eviction" && s.Request.Code < failed:
		e.judge(w, s.Request)
	}
}

// follow remembers a Pod that is evicted and that no plan moves, the first time that it is seen so.
func (e *evictions) follow(w *world, pod *corev1.Pod) {
	uid, owned := taskOf(pod)
	if !owned || e.seen[pod.UID] || !wasEvicted(pod) {
		return
	}
	e.seen[pod.UID] = true
	if !w.isMoved(pod) {
		e.unplanned[nameOf(pod)] = unplanned{node: pod.Spec.NodeName, repair: w.mayRepair(pod), stays: mayNotMove(w.tasks[uid]), whole: w.isWhole(pod)}
	}
}

func (e *evictions) judge(w *world, r *history.Request) {
	name := r.Namespace + "/" + r.Name
	eviction, found := e.unplanned[name]
	if !found {
		return
	}
	delete(e.unplanned, name)
	switch {
	case r.User == UserController && eviction.stays:
		w.report(InvariantMayMove, name, "the Pod was evicted from node %s, and spec.rescheduling.policy of its task is Never", eviction.node)
	case eviction.repair:
	case r.User == UserController:
		w.report(InvariantMayMove, name, "the Pod was evicted from node %s, which is not cordoned, and no plan moves it", eviction.node)
	case r.User == UserScheduler && eviction.whole:
		w.report(InvariantRunning, name, "gpu-scheduler has evicted the Pod from node %s, and its gang was complete", eviction.node)
	}
}

// reasonEviction is the reason in a Pod's condition DisruptionTarget that the API for evictions writes.
const reasonEviction = "EvictionByEvictionAPI"

// wasEvicted reports whether a Pod that has not ended is evicted through the API for that.
func wasEvicted(pod *corev1.Pod) bool {
	condition := conditionOf(pod, corev1.DisruptionTarget)
	return condition != nil && condition.Reason == reasonEviction && !hasEnded(pod)
}

// mayRepair reports whether a Pod may be evicted without a plan: its node is cordoned, it has none yet, or
// the plan is gone with its CRD.
func (w *world) mayRepair(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" || w.cordonedLately(pod.Spec.NodeName) || w.crdDeleted(crdPlans)
}
