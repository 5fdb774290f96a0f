// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// Ready reports whether a node's kubelet reports that it is ready. A node without the
// condition is not ready.
func Ready(node *corev1.Node) bool {
	condition := podfacts.ReadyCondition(node)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// Closed returns why a node takes no new Pods but those that tolerate it: "cordoned", "not ready" or, if it
// takes others, nothing.
func Closed(node *corev1.Node) string {
	switch {
	case node.Spec.Unschedulable:
		return "cordoned"
	case !Ready(node):
		return "not ready"
	default:
		return ""
	}
}

// cordon is the taint that Kubernetes gives a node with spec.unschedulable, a moment later than that.
var cordon = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule} //nolint:gochecknoglobals // a constant

// Taints returns the taints of a node, with that of its cordon even before it has it.
func Taints(node *corev1.Node) []corev1.Taint {
	if !node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&cordon) }) {
		return node.Spec.Taints
	}
	return append(slices.Clone(node.Spec.Taints), cordon)
}

// isClosing reports whether a taint closes a node to all Pods but those that are meant for it: nodes that are cordoned,
// or not ready.
func isClosing(taint *corev1.Taint) bool {
	switch taint.Key {
	case corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
		return taint.Effect != corev1.TaintEffectPreferNoSchedule
	default:
		return false
	}
}

func closes(taint corev1.Taint) bool { return isClosing(&taint) }

// ClosedTo reports whether a node is cordoned or not ready, and a Pod does not tolerate that.
func ClosedTo(node *corev1.Node, pod *corev1.Pod) bool {
	_, closed := schedulingv1.FindMatchingUntoleratedTaint(klog.Background(), Taints(node), pod.Spec.Tolerations, isClosing, false)
	return closed
}

// ToleratesCordon reports whether a Pod may be on a cordoned node.
func ToleratesCordon(pod *corev1.Pod) bool {
	return schedulingv1.TolerationsTolerateTaint(klog.Background(), pod.Spec.Tolerations, &cordon, false)
}

// TaintUnlessReady gives a node that is not ready the taint that keeps Pods off it, which comes later than the
// condition.
func TaintUnlessReady(node *corev1.Node) *corev1.Node {
	if Ready(node) {
		return node
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if condition := podfacts.ReadyCondition(node); condition != nil && condition.Status == corev1.ConditionUnknown {
		taint.Key = corev1.TaintNodeUnreachable
	}
	if slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		return node
	}
	tainted := *node
	tainted.Spec.Taints = append(slices.Clone(node.Spec.Taints), taint)
	return &tainted
}
