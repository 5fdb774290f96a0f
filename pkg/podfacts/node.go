// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NotReady says that a node is not ready, and so may not do what its Pods need.
type NotReady struct {
	Since time.Time
	// Silent means that the control plane does not hear from the node: nobody knows what runs there. Otherwise the node
	// itself says that it is not ready, and Message why.
	Silent  bool
	Message string
}

// NodeNotReady returns why a node is not ready; nil if it is.
func NodeNotReady(node *corev1.Node) *NotReady {
	ready := ReadyCondition(node)
	if ready == nil || ready.Status == corev1.ConditionTrue {
		return nil
	}
	return &NotReady{Since: ready.LastTransitionTime.Time, Silent: ready.Status == corev1.ConditionUnknown, Message: ready.Message}
}

// ReadyCondition returns the condition that says whether a node is ready; nil if it has none yet.
func ReadyCondition(node *corev1.Node) *corev1.NodeCondition {
	at := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
	if at < 0 {
		return nil
	}
	return &node.Status.Conditions[at]
}
