// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// maxRequeue is how long a task waits in the queue at most: it stays there until then even if it is deleted.
const maxRequeue = time.Hour

// syncTask reconciles one task: gather, decide, apply. After an error it is to be retried.
func (c *Controller) syncTask(ctx context.Context, key cache.ObjectName) error {
	task, err := c.tasks.GPUTasks(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.expectations.Forget(key)
		c.obstacles.clear(key)
		c.debouncer.forget(key)
		return nil
	}
	if err != nil {
		return err
	}
	if wait := c.expectations.Pending(key); wait > 0 {
		// The caches don't show the writes of the last sync yet. Their events requeue the
		// task; the delay is in case one is lost.
		c.queue.AddAfter(key, wait)
		return nil
	}
	pods := c.successes.among(task, c.podsOf(task))
	admission, known, err := c.admissions.Admission(task, pods)
	if err != nil || !known { // the task is enqueued again when it is known
		return err
	}
	input := c.gather(ctx, key, task, pods)
	input.Admission = admission
	input.Gone = c.departures.of(task)
	plan, err := gputask.Decide(input)
	if err != nil {
		return fmt.Errorf("deciding: %w", err)
	}
	if err := c.apply(ctx, key, task, input.Gone, plan); err != nil {
		return err
	}
	// Pods that were just created hold quota even if Kueue has changed its mind meanwhile.
	return c.admissions.Report(ctx, task, &plan, pods)
}

func (c *Controller) gather(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, pods []*corev1.Pod) gputask.Input {
	unreachable := c.unreachableNodes(ctx, pods)
	return gputask.Input{
		Task: task,
		Pods: pods,
		UnreachableSince: func(node string) (time.Time, bool) {
			since, found := unreachable[node]
			return since, found
		},
		OtherNodes: func(pod *corev1.Pod, than []string) bool { return c.otherNodes(ctx, pod, than) },
		HasService: c.hasService(task),
		Lookup: func(name string) *v1.GPUTask {
			other, err := c.tasks.GPUTasks(key.Namespace).Get(name)
			if err != nil {
				return nil // a lister's only error is not found
			}
			return other
		},
		Cycle:                c.cycles.of(key),
		HasWaitingDependents: len(c.waitingDependents(key)) > 0,
		Obstacle:             c.obstacles.get(key, task.UID),
		QueueRuntime:         c.queueRuntime(pods),
		Now:                  c.clock.Now(),
		Config:               c.config,
	}
}

// apply carries out a plan, the status first: it records which failures are counted, and
// its write fails if the plan was made from a stale task.
func (c *Controller) apply(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, gone []*corev1.Pod, plan gputask.Plan) error {
	if exists, err := c.updateStatus(ctx, key, task, &plan); err != nil || !exists {
		return err
	}
	c.departures.counted(task, gone)
	if plan.DeleteTask {
		return c.deleteTask(ctx, task)
	}
	turn := c.newTurn()
	if err := c.createService(ctx, key, task, plan.CreateService); err != nil {
		return errors.Join(err, c.deletePods(ctx, turn, plan.Delete))
	}
	err := errors.Join(
		c.deletePods(ctx, turn, plan.Delete),
		c.forceDelete(ctx, turn, task, plan.ForceDelete),
		c.createPods(ctx, turn, key, task, &plan),
		c.patchMinAvailable(ctx, turn, plan.Discount, plan.MinAvailable),
		c.confirmCheckpoints(ctx, turn, plan.Confirm, plan.LastCheckpoint),
		c.declareRuntimes(ctx, turn, plan.Declare),
	)
	if err == nil && turn.unfinished {
		c.queue.AddAfter(key, podEventBatch)
		return nil
	}
	if err == nil && !plan.AwaitsRetry && c.accepted(key, &plan) {
		c.queue.AddAfter(key, podEventBatch) // so that the status drops it too
	}
	if err == nil && plan.RequeueAfter > 0 {
		c.queue.AddAfter(key, min(plan.RequeueAfter, maxRequeue))
	}
	return err
}

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

func (c *Controller) deleteTask(ctx context.Context, task *v1.GPUTask) error {
	background := metav1.DeletePropagationBackground
	err := c.clients.tasks.FalldioV1().GPUTasks(task.Namespace).Delete(ctx, task.Name, metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(task.UID)),
		PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the finished task: %w", err)
	}
	ttl := cmp.Or(task.Spec.TTLSecondsAfterFinished, c.config.TTLSecondsAfterFinished)
	klog.FromContext(ctx).Info("Deleted the finished task", "ttlSecondsAfterFinished", ptr.Deref(ttl, 0))
	return nil
}
