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
	"falldio.github.io/gpu-controller/pkg/expectations"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// statusWriter writes the statuses of tasks, no more often than is useful, and reports what has changed.
type statusWriter struct {
	*dependencies
	expectations *expectations.Expectations[cache.ObjectName]
	debouncer    *statusDebouncer
	// requeue has a task handled again after a while.
	requeue func(task cache.ObjectName, after time.Duration)
}

// updateStatus writes the status if it has changed. The write may be delayed if it reports
// only progress or the creation of the first Pods. It returns false if the task was deleted
// in the meantime.
func (w *statusWriter) updateStatus(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, plan *gputask.Plan) (exists bool, err error) {
	if !equality.Semantic.DeepEqual(task.Status, plan.Status) {
		if wait := w.statusDelay(key, task, plan); wait > 0 {
			w.requeue(key, wait)
			return true, nil
		}
		exists, err = w.writeStatus(ctx, key, task, &plan.Status)
		if err != nil || !exists {
			return exists, err
		}
	}
	w.debouncer.forget(key)
	return true, nil
}

// statusDelay returns how long the write of a plan's status may be delayed.
func (w *statusWriter) statusDelay(key cache.ObjectName, task *v1.GPUTask, plan *gputask.Plan) time.Duration {
	switch {
	case plan.OnlyCreatesFirstPods(task, w.clock.Now()):
		return w.debouncer.delay(key, &plan.Status, firstStatusDelay, firstStatusDelay)
	case plan.OnlyProgress(&task.Status):
		return w.debouncer.delay(key, &plan.Status, progressDelay, maxProgressDelay)
	default:
		return 0
	}
}

// writeStatus returns false if the task was deleted in the meantime.
func (w *statusWriter) writeStatus(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, status *v1.GPUTaskStatus) (exists bool, err error) {
	changed := *task // shallow: the client only reads it
	changed.Status = *status
	written, err := w.clients.tasks.FalldioV1().GPUTasks(task.Namespace).UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil // the event of its deletion is still to come
	}
	if err != nil {
		w.reportRefusedStatus(task, err)
		return false, fmt.Errorf("writing the status: %w", err)
	}
	w.expectations.ExpectVersion(key, written.ResourceVersion)
	if cached, err := w.tasks.GPUTasks(key.Namespace).Get(key.Name); err == nil {
		w.expectations.ObserveVersion(key, cached.ResourceVersion) // its event may have arrived before the response
	}
	w.reportChange(ctx, task, status)
	return true, nil
}

// reasonStatusRefused is the Event of a task whose status the API server refuses.
const reasonStatusRefused = "StatusRefused"

// reportRefusedStatus tells the task's user that the API server refuses its status: nothing is done before it is
// written. An Event always fits.
func (w *statusWriter) reportRefusedStatus(task *v1.GPUTask, err error) {
	switch text := apierror.Message(err); {
	case apierror.IsTooLarge(err):
		w.recorder.Eventf(task, corev1.EventTypeWarning, reasonStatusRefused,
			"the task is too large: the API server can't store its status with it (%s); put long arguments, variables and annotations of the template into a ConfigMap or a volume", text)
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		w.recorder.Eventf(task, corev1.EventTypeWarning, reasonStatusRefused, "the API server refuses the task's status: %s", text)
	}
}

// reportChange reports a change of status in the log, in metrics and in Events.
func (w *statusWriter) reportChange(ctx context.Context, task *v1.GPUTask, status *v1.GPUTaskStatus) {
	logger := klog.FromContext(ctx)
	if status.Phase != task.Status.Phase {
		logger.Info("Phase changed", "from", task.Status.Phase, "to", status.Phase, "message", status.Message)
	}
	if gputask.RunsForTheFirstTime(&task.Status, status) {
		w.metrics.startDuration.Observe(w.clock.Since(task.CreationTimestamp.Time).Seconds())
	}
	for _, event := range gputask.Events(&task.Status, status) {
		if (event.Reason == gputask.ReasonPodLost || event.Reason == string(v1.InterruptionMoved)) && w.rescheduling.Moves(task.UID) {
			continue // the MovePlan's Event explains it better
		}
		w.recorder.Event(task, event.Type, event.Reason, event.Message)
	}
}
