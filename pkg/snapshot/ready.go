// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	corev1 "k8s.io/api/core/v1"
)

// Ready reports whether a node's kubelet reports that it is ready. A node without the
// condition is not ready.
func Ready(node *corev1.Node) bool {
	condition := readyCondition(node)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// Closed returns why a node takes no new Pods at all: "cordoned", "not ready" or, if it
// takes some, nothing.
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

// CordonUnlessReady marks a node as unschedulable if it is not ready: the taint that keeps
// Pods off it comes later than the condition.
func CordonUnlessReady(node *corev1.Node) *corev1.Node {
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
