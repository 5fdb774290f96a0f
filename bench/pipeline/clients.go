// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
)

// clients are how the benchmark itself writes, without a limit of its own.
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

func (c *clients) createTask(ctx context.Context, g *gang) (*v1.GPUTask, error) {
	return c.tasks.FalldioV1().GPUTasks(namespace).Create(ctx, g.task, metav1.CreateOptions{})
}

// node returns the names of all nodes in turn.
func (c *clients) node() string {
	return fmt.Sprintf("%s-%d", nodeGroup, c.next.Add(1)%int64(c.nodes))
}

// events counts the Events that were written by the kind that they are about.
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
