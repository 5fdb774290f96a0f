// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Applicant returns what decides about a Pod's queue, given the labels of its namespace.
func Applicant(pod *corev1.Pod, namespaceLabels map[string]string) *queueing.Applicant {
	return &queueing.Applicant{
		Namespace: pod.Namespace, Queue: pod.Labels[v1.LabelQueue],
		NamespaceQueue: namespaceLabels[v1.LabelQueue], NamespaceLabels: namespaceLabels,
		PriorityClass: pod.Spec.PriorityClassName, MaxRuntime: MaxRuntime(pod),
	}
}

// MaxRuntime returns for how long a Pod declares that it runs at most; 0 if it declares
// nothing, or something that is not a number of seconds.
func MaxRuntime(pod *corev1.Pod) time.Duration {
	count, err := strconv.ParseInt(pod.Annotations[v1.AnnotationMaxRuntime], 10, 32)
	if err != nil || count < 0 {
		return 0
	}
	return time.Duration(count) * time.Second
}
