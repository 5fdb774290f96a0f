// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// Limits is who may start as far as queues are concerned. A nil Limits lets everybody.
type Limits struct {
	cluster *Cluster
	held    *queueing.Ledger
}

// NewLimits returns the Limits of a cluster in which the given Pods run.
func NewLimits(cluster *Cluster, pods []*corev1.Pod) *Limits {
	view := NewView(cluster.Tree)
	for _, pod := range pods {
		view.Add(cluster, pod)
	}
	return &Limits{cluster: cluster, held: view.Held}
}

// WithoutQueues returns the Limits of a cluster without GPUQueues: Pods that name one wait for it.
func WithoutQueues() *Limits {
	return &Limits{cluster: &Cluster{Namespace: func(string) *corev1.Namespace { return nil }}}
}

// Refusal returns why a gang with this Pod may not start now; empty if it may.
func (l *Limits) Refusal(pod *corev1.Pod, gang placement.Gang) string {
	if l == nil {
		return ""
	}
	applicant := Applicant(pod, l.cluster.Namespace(pod.Namespace))
	assigned := l.cluster.Tree.Assign(&applicant)
	if assigned.Problem != nil {
		return assigned.Problem.Message
	}
	if l.held == nil {
		return ""
	}
	if _, exceeded := Confine(l.held, assigned.Queue, &gang); exceeded != nil {
		return exceeded.String()
	}
	return ""
}
