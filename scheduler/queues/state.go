// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queues knows which Pods are in which GPUQueue, and what comes of it for gangs that wait: a Line has their
// order, whether they may start, the places that are booked for the first ones, and when the others are expected to
// start. It has no API client: what it has to write, its Core writes.
package queues

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// State is what the GPUQueues say. Without any, all that waits is in queueing.NoQueue.
type State struct {
	tree    *queueing.Tree
	factors map[string]float64
	// namespace returns a namespace; nil if it is not known.
	namespace func(name string) *corev1.Namespace
}

// NewState returns the State of some GPUQueues, of which tree is the tree; nil if there are none. namespace returns a
// namespace, nil if it is not known.
func NewState(tree *queueing.Tree, objects []*v1.GPUQueue, namespace func(name string) *corev1.Namespace) *State {
	if tree == nil {
		tree = gpuqueue.NewTree(nil)
	}
	return &State{tree: tree, factors: gpuqueue.Factors(objects), namespace: namespace}
}

// Tree returns the queues.
func (s *State) Tree() *queueing.Tree { return s.tree }

// Factors returns the fair-share factors of the queues, as far as they are known.
func (s *State) Factors() map[string]float64 { return s.factors }

// QueueOf returns the queue of a Pod, and why the Pod may not use it.
func (s *State) QueueOf(pod *corev1.Pod) queueing.Assignment {
	applicant := s.applicant(pod)
	return s.tree.Assign(&applicant)
}

// QueueOfRunning returns the queue that a Pod of a namespace with a label falldio.com/queue counts
// for while it runs.
func (s *State) QueueOfRunning(namespace, label string) string {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{v1.LabelQueue: label}}}
	applicant := s.applicant(pod)
	return s.tree.Holder(&applicant)
}

// applicant returns a Pod with what decides about its queue. Without GPUQueues, its namespace doesn't.
func (s *State) applicant(pod *corev1.Pod) queueing.Applicant {
	if !s.tree.HasQueues() {
		return gpuqueue.Applicant(pod, nil)
	}
	return gpuqueue.Applicant(pod, s.namespace(pod.Namespace))
}
