// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package eviction

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/preemption"
)

// MayLeave reports whether kube-scheduler's own preemption may take a Pod of a node for another one: not if its gang
// needs it. Of the members on the node, as many may leave as the gang can spare, the least important ones, so that all
// of them together may. For critical system Pods all may: their gang leaves as a whole then.
func (e *Evictor) MayLeave(node fwk.NodeInfo, victim, preemptor *corev1.Pod) bool {
	gang := e.sources.Registry.GangOf(victim.UID)
	if schedulingv1.PodPriority(preemptor) >= preemption.SystemCritical || gang == "" || victim.DeletionTimestamp != nil || e.sources.Registry.Terminating(victim.UID) {
		return true
	}
	before := 0
	for _, one := range node.GetPods() {
		other := one.GetPod()
		if e.sources.Registry.GangOf(other.UID) == gang && other.DeletionTimestamp == nil && compareImportance(other, victim) < 0 {
			before++
		}
	}
	return before < e.sources.Registry.Spare(gang)
}

// Break records that kube-scheduler's own preemption is about to take Pods, and returns the other Pods of gangs that
// need them. They count as leaving from now on.
func (e *Evictor) Break(victims []*corev1.Pod) (others []*corev1.Pod) {
	return e.sources.Registry.Break(podUIDs(victims))
}

// LeaveWith stops the Pods whose gangs have lost members to a preemptor.
func (e *Evictor) LeaveWith(ctx context.Context, preemptor *corev1.Pod, others []*corev1.Pod) {
	e.stopAll(ctx, preemptor, others, nil)
}

// Stay records that Pods do not leave after all.
func (e *Evictor) Stay(pods []*corev1.Pod) { e.forget(pods) }

// compareImportance orders Pods by how important they are, the least important first: by
// priority, and the younger ones first.
func compareImportance(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(schedulingv1.PodPriority(a), schedulingv1.PodPriority(b)),
		-a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.UID, b.UID),
	)
}
