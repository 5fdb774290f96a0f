// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// system is a way to get from a request to running Pods.
type system struct {
	name string
	// title is its name in tables.
	title string
	// scheduler is localcluster's --scheduler, empty for gpu-scheduler.
	scheduler string
	// controller is true if gpu-controller runs.
	controller bool
	// reportsRunning is true if GPUTasks finally report that they run.
	reportsRunning bool
	// work is what the benchmark itself does for a gang.
	work func(c *clients, g *gang) work
}

// job is what one of the benchmark's workers does at a time.
type job func(context.Context) error

// work is what the benchmark itself does for a gang: jobs to start it, and one
// when all its Pods run, which may be nil.
type work struct {
	starts []job
	last   job
}

// The names of systems.
const (
	floor = "floor"
	least = "least"
	bare  = "bare"
	tasks = "tasks"
	ours  = "ours"
)

const (
	noScheduler    = "none"
	stockScheduler = "stock"
)

var systems = []system{
	{name: floor, title: "raw clients", scheduler: noScheduler, reportsRunning: true, work: rawWork},
	{name: least, title: "raw clients, no status", scheduler: noScheduler, work: leastWork},
	{name: bare, title: "kube-scheduler, bare Pods", scheduler: stockScheduler, work: podWork},
	{name: tasks, title: "GPUTasks, kube-scheduler", scheduler: stockScheduler, controller: true, reportsRunning: true, work: taskWork},
	{name: ours, title: "GPUTasks, gpu-scheduler", controller: true, reportsRunning: true, work: taskWork},
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

// titleOf returns a system's name in tables.
func titleOf(name string) string {
	s, err := systemNamed(name)
	if err != nil {
		return name
	}
	return s.title
}

// rawWork makes the minimum of writes with which a user of GPUTasks can get by: the
// GPUTask, each Pod and its binding, and the status of the GPUTask once all its Pods run.
// No node is chosen: Pods go to the nodes round-robin.
func rawWork(c *clients, g *gang) work {
	task := newOnce(func(ctx context.Context) (*v1.GPUTask, error) { return c.createTask(ctx, g) })
	return work{
		starts: eachPod(g, func(ctx context.Context, index int) error {
			created, err := task.do(ctx)
			if err != nil {
				return err
			}
			return c.startPod(ctx, &gang{task: created}, index)
		}),
		last: func(ctx context.Context) error {
			created, err := task.do(ctx)
			if err != nil {
				return err
			}
			return c.markRunning(ctx, created)
		},
	}
}

// leastWork is rawWork without the status.
func leastWork(c *clients, g *gang) work {
	return work{starts: rawWork(c, g).starts}
}

// podWork creates the Pods of a gang without their GPUTask.
func podWork(c *clients, g *gang) work {
	return work{starts: eachPod(g, func(ctx context.Context, index int) error {
		pod, err := g.pod(index)
		if err != nil {
			return err
		}
		pod.OwnerReferences = nil
		_, err = c.pods.Create(ctx, pod, metav1.CreateOptions{})
		return err
	})}
}

// taskWork creates the GPUTask.
func taskWork(c *clients, g *gang) work {
	return work{starts: []job{func(ctx context.Context) error {
		_, err := c.createTask(ctx, g)
		return err
	}}}
}

func eachPod(g *gang, do func(ctx context.Context, index int) error) []job {
	jobs := make([]job, g.size())
	for index := range jobs {
		jobs[index] = func(ctx context.Context) error { return do(ctx, index) }
	}
	return jobs
}
