// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// podEventBatch is how long the changes of a task's Pods are gathered before
// the task is looked at: the Pods of a gang start within moments of each other.
const podEventBatch = 100 * time.Millisecond

// Names of the informers' indexes.
const (
	// byDependency finds the tasks that name a task in spec.dependsOn.
	byDependency = "dependency"
	// byTaskUID finds the Pods of a task.
	byTaskUID = "taskUID"
)

func (c *Controller) enqueue(task cache.ObjectName) {
	if c.working.Load() {
		c.queue.Add(task)
	}
}

func (c *Controller) enqueueAfter(task cache.ObjectName, delay time.Duration) {
	if c.working.Load() {
		c.queue.AddAfter(task, delay)
	}
}

func (c *Controller) watchTasks(ctx context.Context, informer cache.SharedIndexInformer) error {
	err := informer.AddIndexers(cache.Indexers{byDependency: func(object any) ([]string, error) {
		task, ok := object.(*v1.GPUTask)
		if !ok {
			return nil, nil
		}
		keys := make([]string, 0, len(task.Spec.DependsOn))
		for i := range task.Spec.DependsOn {
			keys = append(keys, task.Namespace+"/"+task.Spec.DependsOn[i].Name)
		}
		return keys, nil
	}})
	if err != nil {
		return err
	}
	registration, err := informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, _ bool) {
			if task, ok := object.(*v1.GPUTask); ok {
				c.unseen.sawTask(cache.MetaObjectToName(task), task.ResourceVersion)
				c.rescheduler.changed()
				c.enqueue(cache.MetaObjectToName(task))
				c.enqueueDependents(task, true)
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
	}, cache.HandlerOptions{Logger: loggerOf(ctx)})
	if err != nil {
		return err
	}
	c.synced = append(c.synced, registration.HasSynced)
	return nil
}

func (c *Controller) taskChanged(before, after *v1.GPUTask) {
	key := cache.MetaObjectToName(after)
	c.unseen.sawTask(key, after.ResourceVersion)
	c.rescheduler.changed()
	c.enqueue(key)
	if before.Status.Phase != after.Status.Phase {
		c.enqueueDependents(after, false)
	}
	if gputask.WaitsForDependencies(before) && !gputask.WaitsForDependencies(after) {
		c.enqueueDependencies(after)
	}
}

func (c *Controller) taskDeleted(ctx context.Context, object any) {
	task, ok := unwrapTombstone(object).(*v1.GPUTask)
	if !ok {
		klog.FromContext(ctx).Info("Ignoring a deleted object of an unexpected type")
		return
	}
	c.rescheduler.changed()
	c.enqueue(cache.MetaObjectToName(task))
	c.enqueueDependents(task, true)
	c.enqueueDependencies(task)
}

// enqueueDependents looks again at the tasks that wait for the given one. When
// a task comes or goes, cycles may close or open for all that wait for it
// through others, too.
func (c *Controller) enqueueDependents(task *v1.GPUTask, transitively bool) {
	seen := map[cache.ObjectName]bool{}
	next := []cache.ObjectName{cache.MetaObjectToName(task)}
	for len(next) > 0 {
		key := next[0]
		next = next[1:]
		for _, dependent := range c.waitingDependents(key) {
			name := cache.MetaObjectToName(dependent)
			if seen[name] {
				continue
			}
			seen[name] = true
			c.enqueue(name)
			if transitively {
				next = append(next, name)
			}
		}
	}
}

// enqueueDependencies looks again at the tasks that the given one no longer
// waits for: they may be due for deletion.
func (c *Controller) enqueueDependencies(task *v1.GPUTask) {
	for i := range task.Spec.DependsOn {
		c.enqueue(cache.NewObjectName(task.Namespace, task.Spec.DependsOn[i].Name))
	}
}

// waitingDependents returns the tasks that wait for the one with the given
// key.
func (c *Controller) waitingDependents(key cache.ObjectName) []*v1.GPUTask {
	objects, err := c.taskIndex.ByIndex(byDependency, key.String())
	if err != nil {
		return nil // the index exists
	}
	var waiting []*v1.GPUTask
	for _, object := range objects {
		if task, ok := object.(*v1.GPUTask); ok && gputask.WaitsForDependencies(task) {
			waiting = append(waiting, task)
		}
	}
	return waiting
}

func (c *Controller) watchPods(ctx context.Context, informer cache.SharedIndexInformer) error {
	err := informer.AddIndexers(cache.Indexers{byTaskUID: func(object any) ([]string, error) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		if owner := owningTask(pod); owner != nil {
			return []string{string(owner.UID)}, nil
		}
		return nil, nil
	}})
	if err != nil {
		return err
	}
	changed := func(object any) {
		pod, ok := unwrapTombstone(object).(*corev1.Pod)
		if !ok {
			klog.FromContext(ctx).Info("Ignoring a changed object of an unexpected type")
			return
		}
		c.podChanged(pod)
	}
	registration, err := informer.AddEventHandlerWithOptions(cache.ResourceEventHandlerFuncs{
		AddFunc:    changed,
		UpdateFunc: func(_, object any) { changed(object) },
		DeleteFunc: changed,
	}, cache.HandlerOptions{Logger: loggerOf(ctx)})
	if err != nil {
		return err
	}
	c.synced = append(c.synced, registration.HasSynced)
	return nil
}

func (c *Controller) podChanged(pod *corev1.Pod) {
	owner := owningTask(pod)
	if owner == nil {
		return
	}
	key := cache.NewObjectName(pod.Namespace, owner.Name)
	c.unseen.sawPod(key, pod.Name)
	c.rescheduler.changed()
	c.enqueueAfter(key, podEventBatch)
}

// owningTask returns the reference to the GPUTask that controls a Pod, nil if
// the Pod is not ours.
func owningTask(pod *corev1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != v1.TaskKind().Kind || owner.APIVersion != v1.TaskKind().GroupVersion().String() {
		return nil
	}
	return owner
}

// unwrapTombstone returns the last known state of an object whose deletion the
// informer missed.
func unwrapTombstone(object any) any {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return object
}

func loggerOf(ctx context.Context) *klog.Logger {
	logger := klog.FromContext(ctx)
	return &logger
}

// withoutManagedFields saves the memory that the caches would spend on who
// changed which field.
func withoutManagedFields(object any) (any, error) {
	if described, err := meta.Accessor(object); err == nil {
		described.SetManagedFields(nil)
	}
	return object, nil
}
