// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/informer"
)

// watch adds the event handlers for tasks, their Pods and their Services, and for what may make the
// API server accept Pods.
func (c *Controller) watch(ctx context.Context) error {
	return errors.Join(c.watchTasks(ctx), c.watchPods(ctx), c.watchServices(ctx), c.refusals.Watch(ctx, c.refusalInformers, c.clusterInformers))
}

func (c *Controller) watchTasks(ctx context.Context) error {
	synced, err := informer.Handle(ctx, c.taskInformers.Falldio().V1().GPUTasks().Informer(), cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, _ bool) {
			if task, ok := object.(*v1.GPUTask); ok {
				c.expectations.ObserveVersion(cache.MetaObjectToName(task), task.ResourceVersion)
				c.rescheduling.Changed()
				c.enqueue(cache.MetaObjectToName(task))
				c.cycles.changed(task)
				c.enqueueDependents(task)
			}
		},
		UpdateFunc: func(oldObject, newObject any) {
			before, ok := oldObject.(*v1.GPUTask)
			after, ok2 := newObject.(*v1.GPUTask)
			if ok && ok2 {
				c.taskChanged(before, after)
			}
		},
		DeleteFunc: func(object any) { c.taskDeleted(ctx, object) },
	})
	if err != nil {
		return err
	}
	c.synced = append(c.synced, synced)
	return nil
}

func (c *Controller) taskChanged(before, after *v1.GPUTask) {
	key := cache.MetaObjectToName(after)
	c.expectations.ObserveVersion(key, after.ResourceVersion)
	c.uncounted.counted(after, nil) // a standby forgets them, too
	c.rescheduling.Changed()
	c.enqueue(key)
	if before.Status.Phase != after.Status.Phase {
		c.enqueueDependents(after)
	}
	if gputask.WaitsForDependencies(before) && !gputask.WaitsForDependencies(after) {
		c.cycles.changed(before)
		c.enqueueDependencies(after)
	}
}

func (c *Controller) taskDeleted(ctx context.Context, object any) {
	task, ok := informer.LastKnown(object).(*v1.GPUTask)
	if !ok {
		klog.FromContext(ctx).Info("Ignoring a deleted object of an unexpected type")
		return
	}
	c.rescheduling.Changed()
	c.enqueue(cache.MetaObjectToName(task))
	c.cycles.changed(task)
	c.enqueueDependents(task)
	c.enqueueDependencies(task)
	c.uncounted.forget(task)
}

// enqueueDependents enqueues the tasks that wait for the given one.
func (c *Controller) enqueueDependents(task *v1.GPUTask) {
	for _, dependent := range c.waitingDependents(cache.MetaObjectToName(task)) {
		c.enqueue(cache.MetaObjectToName(dependent))
	}
}

// enqueueDependencies enqueues the tasks that the given one no longer waits for: they may
// be due for deletion.
func (c *Controller) enqueueDependencies(task *v1.GPUTask) {
	for i := range task.Spec.DependsOn {
		c.enqueue(cache.NewObjectName(task.Namespace, task.Spec.DependsOn[i].Name))
	}
}

func (c *Controller) watchPods(ctx context.Context) error {
	synced, err := informer.OnAnyChange(ctx, c.coreInformers.Core().V1().Pods().Informer(), func(pod *corev1.Pod, deleted bool) {
		if deleted {
			c.podDeleted(pod)
			return
		}
		c.podChanged(pod)
	})
	if err != nil {
		return err
	}
	c.synced = append(c.synced, synced)
	return nil
}

func (c *Controller) podChanged(pod *corev1.Pod) {
	owner := gputask.ControllerOf(pod)
	if owner == nil {
		return
	}
	key := cache.NewObjectName(pod.Namespace, owner.Name)
	c.remember(key, owner.UID, func(task *v1.GPUTask) { c.uncounted.addSucceeded(task, pod) })
	c.expectations.ObserveCreation(key, pod.Name)
	c.rescheduling.Changed()
	c.enqueueAfter(key, podEventBatch)
}

func (c *Controller) podDeleted(pod *corev1.Pod) {
	if owner := gputask.ControllerOf(pod); owner != nil && c.working.Load() && !c.rescheduling.Moves(owner.UID) {
		c.remember(cache.NewObjectName(pod.Namespace, owner.Name), owner.UID, func(task *v1.GPUTask) { c.uncounted.addGone(task, pod) })
	}
	c.uncounted.deleted(pod)
	c.podChanged(pod)
}

// watchServices adds the event handlers for the Services of tasks.
func (c *Controller) watchServices(ctx context.Context) error {
	synced, err := informer.OnAnyChange(ctx, c.coreInformers.Core().V1().Services().Informer(), func(service *corev1.Service, _ bool) { c.serviceChanged(service) })
	if err != nil {
		return err
	}
	c.synced = append(c.synced, synced)
	return nil
}

func (c *Controller) serviceChanged(service *corev1.Service) {
	owner := gputask.ControllerOf(service)
	if owner == nil {
		return
	}
	key := cache.NewObjectName(service.Namespace, owner.Name)
	c.expectations.ObserveCreation(key, expectedService(service.Name))
	c.enqueueAfter(key, podEventBatch)
}

// remember has something of a Pod remembered for the task that owns it, if there is that task. Tasks and Pods are
// watched apart: what is added while the deletion of the task is handled must not stay.
func (c *Controller) remember(key cache.ObjectName, uid types.UID, add func(*v1.GPUTask)) {
	task := c.owning(key, uid)
	if task == nil {
		return
	}
	if add(task); c.owning(key, uid) == nil {
		c.uncounted.forget(task)
	}
}

// owning returns the task of a name that has a UID; nil if there is none.
func (c *Controller) owning(key cache.ObjectName, uid types.UID) *v1.GPUTask {
	task, err := c.tasks.GPUTasks(key.Namespace).Get(key.Name)
	if err != nil || task.UID != uid {
		return nil // a lister's only error is not found
	}
	return task
}
