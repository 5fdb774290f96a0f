// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

// DefaultModule is how a target is measured if the Pod names no module.
const DefaultModule = "http_2xx"

// maxTargetBytes is more than any address needs, and what the agents accept.
const maxTargetBytes = 2048

// question returns the target that a Pod wants to reach fast, if it has one that may be
// measured.
func (a *Args) question(pod *corev1.Pod) (estimate.Question, bool) {
	question := estimate.Question{Target: pod.Annotations[v1.AnnotationNetworkTarget], Module: pod.Annotations[v1.AnnotationNetworkModule]}
	if question.Target == "" || len(question.Target) > maxTargetBytes {
		return estimate.Question{}, false
	}
	if question.Module == "" {
		question.Module = DefaultModule
	}
	return question, slices.Contains(a.Modules, question.Module)
}
