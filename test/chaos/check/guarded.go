// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import corev1 "k8s.io/api/core/v1"

// InvariantGuarded says that no Pod that runs is evicted or preempted while a PodDisruptionBudget
// forbids that. That it is not deleted in another way is InvariantRunning.
const InvariantGuarded = "PodDisruptionBudgets are respected"

// guarded follows the Pods with LabelGuarded.
type guarded struct{}

func (*guarded) take(w *world, s *step) {
	if s.podBefore == nil || !isGuarded(s.pod) || s.podBefore.Status.Phase != corev1.PodRunning || hasEnded(s.pod) {
		return
	}
	if w.leaving[s.pod.Namespace] {
		return // its PodDisruptionBudget is deleted with the namespace
	}
	condition := conditionOf(s.pod, corev1.DisruptionTarget)
	if condition != nil && (condition.Reason == corev1.PodReasonPreemptionByScheduler || condition.Reason == reasonEviction) {
		w.report(InvariantGuarded, nameOf(s.pod), "the Pod ran on node %s and is stopped (%s)", s.pod.Spec.NodeName, condition.Reason)
	}
}

// isGuarded reports whether a PodDisruptionBudget forbids the eviction of a Pod.
func isGuarded(pod *corev1.Pod) bool { return pod.Labels[LabelGuarded] != "" }
