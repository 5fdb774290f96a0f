// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterview is the one view of a cluster that the rescheduler, the execution of
// MovePlans and the command line share: the GPUTasks with their Pods, what starts and moves
// together, which tasks wait for a node and in which order, and the cluster as the engine
// of package placement sees it. It is pure: the caller reads the Objects.
//
// It makes no decisions. What may be moved and what a move costs is in package reschedule,
// which Pods may be preempted in package preemption, which PodDisruptionBudget covers a Pod
// in package disruption, and which Pods a reservation blocks in package reservation.
package clusterview

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Objects are the objects that decisions are based on. They are not modified.
type Objects struct {
	// Tasks are all GPUTasks with their Pods.
	Tasks []Task
	Nodes []*corev1.Node
	// Pods are all Pods that have a node and have not ended, whatever their owner.
	Pods    []*corev1.Pod
	Budgets []*policyv1.PodDisruptionBudget
	// Plans are all MovePlans, including finished ones: what they cost counts against the
	// budgets.
	Plans []*v1.MovePlan
	// Queues is who may start as far as GPUQueues are concerned; nil without any.
	Queues *gpuqueue.Limits
	Levels snapshot.Levels
	Now    time.Time
}

// Task is a GPUTask with its Pods.
type Task struct {
	*v1.GPUTask
	Pods []*corev1.Pod
}
