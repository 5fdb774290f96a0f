// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// newQueue returns a queue of an hour ago that accepts all namespaces.
func newQueue(name, parent string, resources ...v1.GPUQueueResource) *v1.GPUQueue {
	return &v1.GPUQueue{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Generation: 3, CreationTimestamp: ago(time.Hour)},
		Spec:       v1.GPUQueueSpec{Parent: parent, NamespaceSelector: &metav1.LabelSelector{}, Resources: resources},
	}
}

func quota(gpu string, guaranteed int32, limit ...int32) v1.GPUQueueResource {
	q := v1.GPUQueueResource{GPU: gpu, Guaranteed: guaranteed}
	if len(limit) > 0 {
		q.Limit = &limit[0]
	}
	return q
}

type podChange func(*corev1.Pod)

// newPod returns a Pod of a queue that asks for GPUs.
func newPod(name, queue string, gpus int64, changes ...podChange) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{v1.LabelQueue: queue}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{v1.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func runsSince(d time.Duration) podChange {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName, pod.Status.Phase = "h100-0", corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(d)}}
	}
}

func endedBefore(d time.Duration) podChange {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago(d + time.Minute)}}},
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: ago(d)}}},
		}
	}
}

func ofTask(task string, index int) podChange {
	return func(pod *corev1.Pod) {
		pod.Labels[v1.LabelTask], pod.Labels[v1.LabelIndex] = task, strconv.Itoa(index)
	}
}

func wantsModel(model string) podChange {
	return func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{v1.LabelGPUModel: model} }
}

func newCluster() *Cluster {
	return &Cluster{
		Namespace: func(name string) *corev1.Namespace {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		},
		Node: func(name string) *corev1.Node {
			if name != "h100-0" {
				return nil
			}
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelGPUModel: "h100"}}}
		},
	}
}

func viewOf(queues []*v1.GPUQueue, pods ...*corev1.Pod) *View {
	view := NewView(NewTree(queues))
	for _, pod := range pods {
		view.Add(newCluster(), pod)
	}
	return view
}

func spec(change func(*v1.GPUQueueSpec)) v1.GPUQueueSpec {
	s := v1.GPUQueueSpec{NamespaceSelector: &metav1.LabelSelector{}, Weight: ptr.To[int32](1)}
	change(&s)
	return s
}
