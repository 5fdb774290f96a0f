// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// system is a way from a wish to running Pods.
type system struct {
	name string
	// title is what tables call it.
	title string
	// scheduler is localcluster's --scheduler, empty for gpu-scheduler.
	scheduler string
	// controller is true if gpu-controller runs.
	controller bool
	// jobs are the requests that the benchmark itself makes for a gang.
	jobs func(c *clients, g *gang) []job
}

// The names of systems.
const (
	floor = "floor"
	bare  = "bare"
	tasks = "tasks"
	ours  = "ours"
)

var systems = []system{
	{name: floor, title: "raw clients", scheduler: "none", jobs: rawJobs},
	{name: bare, title: "kube-scheduler, bare Pods", scheduler: "stock", jobs: podJobs},
	{name: tasks, title: "GPUTasks, kube-scheduler", scheduler: "stock", controller: true, jobs: taskJobs},
	{name: ours, title: "GPUTasks, gpu-scheduler", controller: true, jobs: taskJobs},
}

func systemNamed(name string) (*system, error) {
	var names []string
	for i := range systems {
		if systems[i].name == name {
			return &systems[i], nil
		}
		names = append(names, systems[i].name)
	}
	return nil, fmt.Errorf("must be some of %s, is %q", strings.Join(names, ", "), name)
}

// job is what one of the benchmark's workers does at a time.
type job func(context.Context) error

// rawJobs makes the least writes that start a gang: its GPUTask, and each Pod and
// its binding. Nobody chooses a node: Pods go to the nodes in turn.
func rawJobs(c *clients, g *gang) []job {
	task := newOnce(func(ctx context.Context) (gang, error) {
		created, err := c.createTask(ctx, g)
		return gang{task: created}, err
	})
	return eachPod(g, func(ctx context.Context, index int) error {
		created, err := task.do(ctx)
		if err != nil {
			return err
		}
		pod, err := created.pod(index)
		if err != nil {
			return err
		}
		pod.Spec.SchedulerName = "none" // nobody else shall bind it
		if _, err := c.pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
		return c.pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
			Target:     corev1.ObjectReference{Kind: "Node", Name: c.node()},
		}, metav1.CreateOptions{})
	})
}

// podJobs creates the Pods of a gang without their GPUTask.
func podJobs(c *clients, g *gang) []job {
	return eachPod(g, func(ctx context.Context, index int) error {
		pod, err := g.pod(index)
		if err != nil {
			return err
		}
		pod.OwnerReferences = nil
		_, err = c.pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// taskJobs creates the GPUTask.
func taskJobs(c *clients, g *gang) []job {
	return []job{func(ctx context.Context) error {
		_, err := c.createTask(ctx, g)
		return err
	}}
}

func eachPod(g *gang, do func(ctx context.Context, index int) error) []job {
	jobs := make([]job, g.size())
	for index := range jobs {
		jobs[index] = func(ctx context.Context) error { return do(ctx, index) }
	}
	return jobs
}
