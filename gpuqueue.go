// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// queueRuntime returns for how long the queue of a task with the given Pods lets tasks run whose run begins now; nil if
// that is not known, as for a task without Pods.
func (d *dependencies) queueRuntime(pods []*corev1.Pod) *v1.QueueRuntime {
	tree, wanting := d.queueTree(), slices.IndexFunc(pods, snapshot.WantsGPUs)
	switch {
	case len(pods) == 0 || tree == nil && !d.queuesKnown():
		return nil
	case tree == nil || wanting < 0:
		return &v1.QueueRuntime{}
	}
	namespace := d.namespace(pods[wanting].Namespace)
	if namespace == nil {
		return nil
	}
	applicant := gpuqueue.Applicant(pods[wanting], namespace)
	limit, of := tree.RuntimeLimit(tree.Assign(&applicant).Queue)
	return &v1.QueueRuntime{MaxSeconds: int64(limit.Seconds()), Queue: of}
}

// queueRefusal returns why Pods of a task may not use their queue; nil if they may, or it is not
// known. The scheduler would keep such Pods waiting: the task says why, and is spared Pods that
// can't start.
func (d *dependencies) queueRefusal(pods []*corev1.Pod) *gputask.Refusal {
	wanting := slices.IndexFunc(pods, snapshot.WantsGPUs)
	tree := d.queueTree()
	if wanting < 0 || tree == nil && !d.queuesKnown() {
		return nil
	}
	pod := pods[wanting]
	namespace := d.namespace(pod.Namespace)
	if namespace == nil {
		return nil
	}
	applicant := gpuqueue.Applicant(pod, namespace)
	applicant.PriorityClass = cmp.Or(applicant.PriorityClass, d.defaultPriorityClass())
	problem := tree.Assign(&applicant).Problem
	if problem == nil {
		return nil
	}
	return &gputask.Refusal{Reason: string(problem.Reason), Message: problem.Message}
}

// defaultPriorityClass returns the PriorityClass that the API server gives to Pods that name none;
// empty if there is none.
func (d *dependencies) defaultPriorityClass() string {
	classes, err := d.clusterInformers.Scheduling().V1().PriorityClasses().Lister().List(labels.Everything())
	if err != nil {
		return ""
	}
	for _, class := range classes {
		if class.GlobalDefault {
			return class.Name
		}
	}
	return ""
}
