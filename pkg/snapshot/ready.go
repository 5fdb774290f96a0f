// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ready reports whether a node's kubelet says that it is ready. One that has said nothing
// yet is not.
func Ready(node *corev1.Node) bool {
	condition := readyCondition(node)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// ReadySince returns when a node became as ready, or as little ready, as it is.
func ReadySince(node *corev1.Node) time.Time {
	if condition := readyCondition(node); condition != nil {
		return condition.LastTransitionTime.Time
	}
	return node.CreationTimestamp.Time
}

// Closed says why a node takes no new Pods, whatever they are: "cordoned", "not ready" or,
// if it takes some, nothing.
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

// ClosedUnlessReady returns a node as one that takes no Pods if it is not ready: the taint
// that keeps Pods off comes later than the condition.
func ClosedUnlessReady(node *corev1.Node) *corev1.Node {
	if Ready(node) || node.Spec.Unschedulable {
		return node
	}
	closed := *node
	closed.Spec.Unschedulable = true
	return &closed
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}
