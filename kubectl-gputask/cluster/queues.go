// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/kubectl-gputask/analysis"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

// QueueList is the GPUQueues of a cluster.
type QueueList struct {
	Queues []*v1.GPUQueue
	// Namespaces decide which queue Pods are in that name none. They are those that the user may see.
	Namespaces []*corev1.Namespace
	// Unknown is why the queues are not known, in a sentence for the user; empty if they are.
	Unknown string
	// Absent is true if the cluster has no such kind.
	Absent bool
}

// ForAnalysis returns the queues as package analysis has them.
func (l *QueueList) ForAnalysis() *analysis.Queues {
	if l.Unknown != "" {
		return analysis.UnknownQueues()
	}
	return analysis.NewQueues(l.Queues, l.Namespaces)
}

// queuesForbidden is why the queues are not known to who may not list them.
const queuesForbidden = "you may not list gpuqueues (ask for the ClusterRole gpuqueues-view)"

// ListQueues lists the GPUQueues, with the namespaces that decide who is in them. It is no error if the cluster has no
// such kind, or the user may not list them. If not all namespaces may be listed, the given ones are read one by one, as
// far as that is allowed.
func ListQueues(ctx context.Context, clients *Clients, namespaces ...string) (*QueueList, error) {
	list, err := clients.Tasks.FalldioV1().GPUQueues().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return &QueueList{Absent: true}, nil
	case apierrors.IsForbidden(err):
		return &QueueList{Unknown: queuesForbidden}, nil
	case err != nil:
		return nil, fmt.Errorf("listing gpuqueues: %w", err)
	case len(list.Items) == 0:
		return &QueueList{}, nil
	}
	queues := &QueueList{Queues: pointers(list.Items)}
	all, err := clients.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	switch {
	case err == nil:
		queues.Namespaces = pointers(all.Items)
		return queues, nil
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	for _, name := range namespaces {
		if name == metav1.NamespaceAll {
			continue
		}
		one, err := clients.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			queues.Namespaces = append(queues.Namespaces, one)
		} else if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("reading namespace %s: %w", name, err)
		}
	}
	return queues, nil
}

// QueueOf returns the queue that the Pods of a task are in, and would be in if there are none yet: the one that they
// name, else that of their namespace. It is empty if they are in none, and in words if it may not be known.
func QueueOf(ctx context.Context, clients *Clients, task *v1.GPUTask, pods []*corev1.Pod) (string, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: task.Namespace}}
	if task.Spec.Template != nil {
		pod.Labels = task.Spec.Template.Labels
	}
	if len(pods) > 0 {
		pod = pods[0]
	}
	if queue := cmp.Or(task.Spec.Queue, pod.Labels[v1.LabelQueue]); queue != "" {
		return queue, nil
	}
	list, err := ListQueues(ctx, clients, task.Namespace)
	if err != nil {
		return "", err
	}
	if list.Unknown != "" {
		return "unknown: " + list.Unknown, nil
	}
	return list.ForAnalysis().Assign(pod).Queue, nil
}

// Work is the tasks and Pods of a namespace, or of all.
type Work struct {
	Tasks []clusterview.Task
	// Pods are those that have not ended.
	Pods []*corev1.Pod
}

// ListWork lists what waits and runs in a namespace, or in all with metav1.NamespaceAll.
func ListWork(ctx context.Context, clients *Clients, namespace string) (*Work, error) {
	var tasks *v1.GPUTaskList
	var pods *corev1.PodList
	var group errgroup.Group
	group.Go(func() (err error) {
		if tasks, err = clients.Tasks.FalldioV1().GPUTasks(namespace).List(ctx, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("listing gputasks: %w", err)
		}
		return nil
	})
	group.Go(func() (err error) {
		notEnded := metav1.ListOptions{FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"}
		if pods, err = clients.Kube.CoreV1().Pods(namespace).List(ctx, notEnded); err != nil {
			return fmt.Errorf("listing pods: %w", err)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return &Work{Tasks: withPods(tasks.Items, pods.Items), Pods: notEnded(pods.Items)}, nil
}

// ListNodes lists the nodes; none if the user may not list them.
func ListNodes(ctx context.Context, clients *Clients) ([]*corev1.Node, error) {
	list, err := clients.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing nodes: %w", err)
	default:
		return pointers(list.Items), nil
	}
}

func notEnded(pods []corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(pointers(pods), podfacts.Ended)
}
