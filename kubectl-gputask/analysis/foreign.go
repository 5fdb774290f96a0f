// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// notATask begins the UID of what only stands for Pods of others.
const notATask = "foreign/"

// isForeign reports whether a task only stands for Pods of others, for which gpu-controller does nothing.
func isForeign(task *v1.GPUTask) bool { return strings.HasPrefix(string(task.UID), notATask) }

// AsTask returns Pods that no GPUTask controls, at least one, as a task with these Pods, so that they are explained
// like one. Several are an array: they start independently of each other.
func AsTask(namespace, name string, pods []*corev1.Pod) clusterview.Task {
	first := pods[0]
	task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(notATask + name), CreationTimestamp: first.CreationTimestamp}}
	task.Spec.GPUAmount, task.Spec.Priority = gpuqueue.Amount(first).String(), first.Spec.PriorityClassName
	if model := gpuqueue.WantedModel(first); model != queueing.AnyModel {
		task.Spec.GPU = model
	}
	task.Spec.Replicas = new(int32(len(pods))) //nolint:gosec // a cluster has fewer
	if len(pods) > 1 {
		task.Spec.Completions = task.Spec.Replicas
	}
	task.Status.Phase = v1.PhaseRunning
	for _, pod := range pods {
		switch {
		case podfacts.Ended(pod):
		case pod.Spec.NodeName == "":
			task.Status.Phase = v1.PhasePending
		default:
			task.Status.Running++
			task.Status.Nodes = append(task.Status.Nodes, pod.Spec.NodeName)
		}
	}
	return clusterview.Task{GPUTask: task, Pods: pods}
}
