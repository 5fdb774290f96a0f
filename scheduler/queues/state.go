// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queues watches GPUQueues, and knows which Pods are in which queue. Whether the API
// server serves GPUQueues is found by discovery, and looked up again from time to time:
// without them, all Pods are in no queue.
package queues

import (
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// State is what the GPUQueues say. It does not change, and is safe for concurrent use.
type State struct {
	tree    *queueing.Tree
	factors map[string]float64
	// labelsOf returns the labels of a namespace.
	labelsOf func(namespace string) map[string]string
	any      bool
}

// NewState returns the State of some GPUQueues. labelsOf returns the labels of a namespace.
func NewState(objects []*v1.GPUQueue, labelsOf func(namespace string) map[string]string) *State {
	return &State{
		tree: queueing.NewTree(gpuqueue.Queues(objects)), factors: gpuqueue.Factors(objects),
		labelsOf: labelsOf, any: len(objects) > 0,
	}
}

// Any reports whether there is any GPUQueue.
func (s *State) Any() bool { return s.any }

// Tree returns the queues.
func (s *State) Tree() *queueing.Tree { return s.tree }

// Factors returns the fair-share factors of the queues, as far as they are known.
func (s *State) Factors() map[string]float64 { return s.factors }

// QueueOf returns the queue of a Pod, and why the Pod may not use it.
func (s *State) QueueOf(pod *corev1.Pod) queueing.Assignment {
	return s.tree.Assign(gpuqueue.Applicant(pod, s.labelsOf(pod.Namespace)))
}

// QueueOfRunning returns the queue that a Pod of a namespace with a label falldio.com/queue counts
// for while it runs: whether it may use the queue was decided before. A queue that does not
// exist any more counts as none.
func (s *State) QueueOfRunning(namespace, label string) string {
	labels := s.labelsOf(namespace)
	queue := s.tree.Assign(&queueing.Applicant{
		Namespace: namespace, Queue: label, NamespaceQueue: labels[v1.LabelQueue], NamespaceLabels: labels,
	}).Queue
	if !s.tree.Has(queue) {
		return queueing.NoQueue
	}
	return queue
}
