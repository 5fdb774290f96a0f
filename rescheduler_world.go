// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

// runningPods selects the Pods that hold resources.
const runningPods = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

// gather returns what the caches show: all of a World but the Pods of others.
func (r *rescheduler) gather() (*reschedule.World, error) {
	list, err := r.controller.tasks.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	w := &reschedule.World{Levels: r.levels, Now: r.controller.clock.Now(), Tasks: make([]reschedule.Task, 0, len(list))}
	for _, task := range list {
		w.Tasks = append(w.Tasks, reschedule.Task{GPUTask: task, Pods: r.controller.podsOf(task)})
	}
	if w.Nodes, err = r.nodes.List(labels.Everything()); err != nil {
		return nil, err
	}
	if w.Budgets, err = r.budgets.List(labels.Everything()); err != nil {
		return nil, err
	}
	w.Plans, err = r.ownPlans()
	return w, err
}

// ownPlans returns the plans that are this rescheduler's business: those that move
// nothing outside its namespace.
func (r *rescheduler) ownPlans() ([]*v1.MovePlan, error) {
	all, err := r.plans.List(labels.Everything())
	if err != nil || r.namespace == "" {
		return all, err
	}
	var own []*v1.MovePlan
	for _, plan := range all {
		if isWithin(plan, r.namespace) {
			own = append(own, plan)
		}
	}
	return own, nil
}

func isWithin(plan *v1.MovePlan, namespace string) bool {
	if plan.Spec.For != nil && plan.Spec.For.Namespace != namespace {
		return false
	}
	for i := range plan.Spec.Moves {
		if plan.Spec.Moves[i].Task.Namespace != namespace {
			return false
		}
	}
	return true
}

// gatherAll is gather with all Pods that run. Those of other owners are in no cache
// of ours, and plans are rarely made.
func (r *rescheduler) gatherAll(ctx context.Context) (*reschedule.World, error) {
	w, err := r.gather()
	if err != nil {
		return nil, err
	}
	if w.Pods, err = r.listRunning(ctx); err != nil {
		return nil, err
	}
	useNewest(w)
	return w, nil
}

// useNewest shows the Pods of tasks as they were listed: a cache may not show yet that
// they got a node.
func useNewest(w *reschedule.World) {
	listed := make(map[types.UID]*corev1.Pod, len(w.Pods))
	for _, pod := range w.Pods {
		listed[pod.UID] = pod
	}
	for i := range w.Tasks {
		for j, pod := range w.Tasks[i].Pods {
			if newer := listed[pod.UID]; newer != nil && pod.Spec.NodeName == "" {
				w.Tasks[i].Pods[j] = newer
			}
		}
	}
}

// listRunning asks the API server for all Pods that run.
func (r *rescheduler) listRunning(ctx context.Context) ([]*corev1.Pod, error) {
	list, err := r.controller.clients.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx,
		metav1.ListOptions{FieldSelector: runningPods, ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("listing the Pods that run: %w", err)
	}
	running := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		running = append(running, &list.Items[i])
	}
	return running, nil
}
