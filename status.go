// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// updateStatus writes the status if it has changed. The write may be delayed if it reports
// only progress or the creation of the first Pods. It returns false if the task was deleted
// in the meantime.
func (c *Controller) updateStatus(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, plan *gputask.Plan) (exists bool, err error) {
	if !equality.Semantic.DeepEqual(task.Status, plan.Status) {
		if wait := c.statusDelay(key, task, plan); wait > 0 {
			c.queue.AddAfter(key, wait)
			return true, nil
		}
		exists, err = c.writeStatus(ctx, key, task, &plan.Status)
		if err != nil || !exists {
			return exists, err
		}
	}
	c.debouncer.forget(key)
	return true, nil
}

// statusDelay returns how long the write of a plan's status may be delayed.
func (c *Controller) statusDelay(key cache.ObjectName, task *v1.GPUTask, plan *gputask.Plan) time.Duration {
	switch {
	case plan.OnlyCreatesFirstPods(task, c.clock.Now()):
		return c.debouncer.delay(key, &plan.Status, firstStatusDelay, firstStatusDelay)
	case plan.OnlyProgress(&task.Status):
		return c.debouncer.delay(key, &plan.Status, progressDelay, maxProgressDelay)
	default:
		return 0
	}
}

// writeStatus returns false if the task was deleted in the meantime.
func (c *Controller) writeStatus(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, status *v1.GPUTaskStatus) (exists bool, err error) {
	changed := *task // shallow: the client only reads it
	changed.Status = *status
	written, err := c.clients.tasks.FalldioV1().GPUTasks(task.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil // the event of its deletion is still to come
	}
	if err != nil {
		c.reportRefusedStatus(task, err)
		return false, fmt.Errorf("writing the status: %w", err)
	}
	c.expectations.ExpectVersion(key, written.ResourceVersion)
	if cached, err := c.tasks.GPUTasks(key.Namespace).Get(key.Name); err == nil {
		c.expectations.ObserveVersion(key, cached.ResourceVersion) // its event may have arrived before the response
	}
	c.reportChange(ctx, task, status)
	return true, nil
}

// reasonStatusRefused is the Event of a task whose status the API server refuses.
const reasonStatusRefused = "StatusRefused"

// reportRefusedStatus tells the task's user that the API server refuses its status: nothing is done before it is written. An Event
// always fits.
func (c *Controller) reportRefusedStatus(task *v1.GPUTask, err error) {
	switch text := apierror.Message(err); {
	case apierror.IsTooLarge(err):
		c.recorder.Eventf(task, corev1.EventTypeWarning, reasonStatusRefused,
			"the task is too large: the API server can't store its status with it (%s); put long arguments, variables and annotations of the template into a ConfigMap or a volume", text)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		c.recorder.Eventf(task, corev1.EventTypeWarning, reasonStatusRefused, "the API server refuses the task's status: %s", text)
	}
}

// reportChange reports a change of status in the log, in metrics and in Events.
func (c *Controller) reportChange(ctx context.Context, task *v1.GPUTask, status *v1.GPUTaskStatus) {
	logger := klog.FromContext(ctx)
	if status.Phase != task.Status.Phase {
		logger.Info("Phase changed", "from", task.Status.Phase, "to", status.Phase, "message", status.Message)
	}
	if gputask.RunsForTheFirstTime(&task.Status, status) {
		c.metrics.observeStart(c.clock.Since(task.CreationTimestamp.Time))
	}
	for _, event := range gputask.Events(&task.Status, status) {
		if event.Reason == gputask.ReasonPodLost && c.rescheduling.Moves(task.UID) {
			continue // the MovePlan's Event explains it better
		}
		c.recorder.Event(task, event.Type, event.Reason, event.Message)
	}
}
