// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package podfacts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NotReady says that a node is not ready, and so may not do what its Pods need.
type NotReady struct {
	Since time.Time
	// Silent means that the control plane does not hear from the node: nobody knows what runs there. Otherwise the node itself
	// says that it is not ready, and Message why.
	Silent  bool
	Message string
}

// NodeNotReady returns why a node is not ready; nil if it is.
func NodeNotReady(node *corev1.Node) *NotReady {
	for i := range node.Status.Conditions {
		ready := &node.Status.Conditions[i]
		if ready.Type == corev1.NodeReady && ready.Status != corev1.ConditionTrue {
			return &NotReady{Since: ready.LastTransitionTime.Time, Silent: ready.Status == corev1.ConditionUnknown, Message: ready.Message}
		}
	}
	return nil
}
