// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// AdmissionChanged reports whether something of a Node has changed that may decide which Pods it admits. That is all that
// kube-scheduler's plugins can be told about Nodes: what the engine does not consider, they may.
func AdmissionChanged(before, after *corev1.Node) bool {
	return before.Spec.Unschedulable != after.Spec.Unschedulable || len(framework.NodeSchedulingPropertiesChange(after, before)) > 0
}
