// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Applicant returns what decides about the queue of a Pod. The namespace is nil if it is not known:
// then it has no labels.
func Applicant(pod *corev1.Pod, namespace *corev1.Namespace) queueing.Applicant {
	applicant := queueing.Applicant{
		Namespace: pod.Namespace, Queue: pod.Labels[v1.LabelQueue], PriorityClass: pod.Spec.PriorityClassName, MaxRuntime: MaxRuntime(pod),
	}
	if namespace != nil {
		applicant.NamespaceLabels, applicant.NamespaceQueue = namespace.Labels, namespace.Labels[v1.LabelQueue]
	}
	return applicant
}

// MaxRuntime returns for how long a Pod may run by what it declares; 0 if it declares nothing that
// is understood and enforced.
func MaxRuntime(pod *corev1.Pod) time.Duration {
	seconds, err := strconv.ParseInt(pod.Annotations[v1.AnnotationMaxRuntime], 10, 32)
	if err != nil || seconds < 0 || !stopsAfter(pod, seconds) {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// stopsAfter reports whether somebody stops a Pod that runs for longer than it declares: gpu-controller, which writes
// what the Pods of its tasks declare, or the kubelet.
func stopsAfter(pod *corev1.Pod, seconds int64) bool {
	deadline := pod.Spec.ActiveDeadlineSeconds
	return deadline != nil && *deadline <= seconds || gputask.ControllerOf(pod) != nil
}

// Amount returns how many GPUs a Pod asks for, and holds when it is bound; MIG slices count as the
// part of a GPU that they are. GPUs of resource claims do not count.
func Amount(pod *corev1.Pod) queueing.Amount {
	if !snapshot.WantsGPUs(pod) {
		return 0
	}
	requests := snapshot.Requests(pod)
	count := func(name corev1.ResourceName) queueing.Amount {
		quantity := requests[name]
		return queueing.Amount(min(quantity.Value(), placement.MaxCards))
	}
	whole := (count(v1.ResourceGPU) + count(v1.ResourceNVIDIAGPU)) * queueing.GPU
	return whole + min(count(v1.ResourceGPUPercent), placement.Card) + queueing.Amount(snapshot.SlicePercent(snapshot.Others(requests)))
}

// WantedModel returns the only GPU model that a Pod accepts; AnyModel if there may be several.
func WantedModel(pod *corev1.Pod) string {
	shape, err := snapshot.Shape(pod)
	if err != nil {
		return queueing.AnyModel
	}
	return OnlyModel(shape.Models)
}
