// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// MayLeave reports whether kube-scheduler's own preemption may take a Pod of a node: not if
// its gang needs it. Of the members on the node, as many may leave as the gang can spare, the
// least important ones, so that all of them together may.
func (p *Planner) MayLeave(node fwk.NodeInfo, victim *corev1.Pod) bool {
	gang := p.registry.GangOf(victim.UID)
	if gang == "" || victim.DeletionTimestamp != nil || p.registry.Terminating(victim.UID) {
		return true
	}
	before := 0
	for _, one := range node.GetPods() {
		other := one.GetPod()
		if p.registry.GangOf(other.UID) == gang && other.DeletionTimestamp == nil && compareImportance(other, victim) < 0 {
			before++
		}
	}
	return before < p.registry.Spare(gang)
}

// compareImportance orders Pods by how important they are, the least important first: by
// priority, and the younger ones first.
func compareImportance(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(schedulingv1.PodPriority(a), schedulingv1.PodPriority(b)),
		-a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.UID, b.UID),
	)
}
