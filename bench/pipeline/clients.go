// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
)

// clients are the benchmark's own clients, which are not rate-limited.
type clients struct {
	kube  kubernetes.Interface
	pods  typedcorev1.PodInterface
	tasks clientset.Interface
	nodes int
	next  atomic.Int64
}

func newClients(config *rest.Config, nodes int) (*clients, error) {
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	kube, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return nil, err
	}
	tasks, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &clients{kube: kube, pods: kube.CoreV1().Pods(namespace), tasks: tasks, nodes: nodes}, nil
}

// version returns the current resource version of the store.
func (c *clients) version(ctx context.Context) (string, error) {
	list, err := c.pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	return list.ResourceVersion, nil
}

func (c *clients) createTask(ctx context.Context, g *gang) (*v1.GPUTask, error) {
	return c.tasks.FalldioV1().GPUTasks(namespace).Create(ctx, g.task, metav1.CreateOptions{})
}

// startPod creates a Pod of a gang and binds it.
func (c *clients) startPod(ctx context.Context, g *gang, index int) error {
	pod, err := g.pod(index)
	if err != nil {
		return err
	}
	if _, err := c.pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return err
	}
	return c.pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		Target:     corev1.ObjectReference{Kind: "Node", Name: c.node()},
	}, metav1.CreateOptions{})
}

// markRunning writes the minimal status of a running GPUTask.
func (c *clients) markRunning(ctx context.Context, task *v1.GPUTask) error {
	updated := task.DeepCopy()
	updated.Status.Phase, updated.Status.Running = v1.PhaseRunning, *task.Spec.Replicas
	_, err := c.tasks.FalldioV1().GPUTasks(namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	return err
}

// node returns the names of all nodes, round-robin.
func (c *clients) node() string {
	return fmt.Sprintf("%s-%d", nodeGroup, c.next.Add(1)%int64(c.nodes))
}

// events counts the Events written, by the kind of the object that they regard.
func (c *clients) events(ctx context.Context) (map[string]int, error) {
	list, err := c.kube.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	written := map[string]int{}
	for i := range list.Items {
		written[list.Items[i].Regarding.Kind] += max(1, int(list.Items[i].DeprecatedCount))
	}
	return written, nil
}
