// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// AdmissionChanged reports whether something of a Node has changed that may decide which Pods it admits, whether the
// engine considers it or only kube-scheduler's plugins do. None of these looks at conditions or annotations, which
// agents may write again and again, and the engine looks at our own annotations only.
func AdmissionChanged(before, after *corev1.Node) bool {
	return before.Spec.Unschedulable != after.Spec.Unschedulable ||
		slices.ContainsFunc(framework.NodeSchedulingPropertiesChange(after, before), matters) ||
		!maps.Equal(ours(before.Annotations), ours(after.Annotations))
}

func matters(change fwk.ClusterEvent) bool {
	return change.ActionType != fwk.UpdateNodeAnnotation && change.ActionType != fwk.UpdateNodeCondition
}

// ours returns the annotations of ours.
func ours(annotations map[string]string) map[string]string {
	found := map[string]string{}
	for key, value := range annotations {
		if strings.HasPrefix(key, v1.GroupName+"/") {
			found[key] = value
		}
	}
	return found
}
