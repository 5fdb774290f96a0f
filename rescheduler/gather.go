// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rescheduler

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
)

// gather returns the given tasks with their Pods, and all nodes, budgets and plans, from
// the caches: all Objects but the Pods.
func (r *Rescheduler) gather(tasks []*v1.GPUTask) (objects *clusterview.Objects, err error) {
	objects = &clusterview.Objects{Levels: r.options.Levels, Now: r.deps.Clock.Now(), Tasks: make([]clusterview.Task, 0, len(tasks))}
	for _, task := range tasks {
		objects.Tasks = append(objects.Tasks, clusterview.Task{GPUTask: task, Pods: r.deps.PodsOf(task)})
	}
	if objects.Nodes, err = r.nodes.List(labels.Everything()); err != nil {
		return nil, err
	}
	if objects.Budgets, err = r.budgets.List(labels.Everything()); err != nil {
		return nil, err
	}
	objects.Plans, err = r.ownPlans()
	return objects, err
}

// gatherTasks is gather with all tasks.
func (r *Rescheduler) gatherTasks() (*clusterview.Objects, error) {
	tasks, err := r.deps.GPUTasks.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	return r.gather(tasks)
}

// tasksOf returns the tasks that plans name. It does not list all tasks: a plan that is
// being carried out is checked after every change in the cluster, which may have thousands.
func (r *Rescheduler) tasksOf(plans []*v1.MovePlan) ([]*v1.GPUTask, error) {
	var tasks []*v1.GPUTask
	var named []v1.TaskReference
	for _, plan := range plans {
		if plan.Spec.For != nil {
			named = append(named, *plan.Spec.For)
		}
		for i := range plan.Spec.Moves {
			named = append(named, plan.Spec.Moves[i].Task)
		}
	}
	known := sets.New[cache.ObjectName]()
	for _, ref := range named {
		name := cache.NewObjectName(ref.Namespace, ref.Name)
		if known.Has(name) {
			continue
		}
		known.Insert(name)
		task, err := r.deps.GPUTasks.GPUTasks(ref.Namespace).Get(ref.Name)
		if err == nil {
			tasks = append(tasks, task)
		} else if !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return tasks, nil
}

// ownPlans returns the plans that this rescheduler handles: those that move nothing outside
// its namespace.
func (r *Rescheduler) ownPlans() ([]*v1.MovePlan, error) {
	all, err := r.plans.List(labels.Everything())
	if err != nil || r.deps.Namespace == "" {
		return all, err
	}
	return slices.DeleteFunc(slices.Clone(all), func(plan *v1.MovePlan) bool { return !isWithin(plan, r.deps.Namespace) }), nil
}

func isWithin(plan *v1.MovePlan, namespace string) bool {
	if plan.Spec.For != nil && plan.Spec.For.Namespace != namespace {
		return false
	}
	return !slices.ContainsFunc(plan.Spec.Moves, func(move v1.Move) bool { return move.Task.Namespace != namespace })
}

// gatherAll is gatherTasks with all Pods that run.
func (r *Rescheduler) gatherAll() (*clusterview.Objects, error) {
	objects, err := r.gatherTasks()
	if err != nil {
		return nil, err
	}
	if objects.Pods, err = r.deps.Pods.Running(); err != nil {
		return nil, err
	}
	useNewest(objects)
	objects.Queues = r.limits(objects.Pods)
	return objects, nil
}

// limits returns who may start as far as GPUQueues are concerned, given the Pods that run.
func (r *Rescheduler) limits(running []*corev1.Pod) *gpuqueue.Limits {
	if r.deps.Queues == nil {
		return nil
	}
	tree := r.deps.Queues()
	if tree == nil {
		return gpuqueue.WithoutQueues()
	}
	return gpuqueue.NewLimits(&gpuqueue.Cluster{Tree: tree, Namespace: r.deps.NamespaceOf, Node: r.deps.Pods.Node, Factors: r.deps.Factors()}, running)
}

// useNewest replaces Pods of tasks by those among all Pods: one cache may not show yet what another
// one does, that they were bound.
func useNewest(objects *clusterview.Objects) {
	listed := make(map[types.UID]*corev1.Pod, len(objects.Pods))
	for _, pod := range objects.Pods {
		listed[pod.UID] = pod
	}
	for i := range objects.Tasks {
		for j, pod := range objects.Tasks[i].Pods {
			if newer := listed[pod.UID]; newer != nil && pod.Spec.NodeName == "" {
				objects.Tasks[i].Pods[j] = newer
			}
		}
	}
}
