// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podwrite"
	"falldio.github.io/gpu-controller/refusals"
)

const (
	// firstCreateBatch is how many Pods are created before the rest: if the API server
	// rejects one, it would reject them all.
	firstCreateBatch = 1
	// createBatchGrowth is how much larger each batch is than the one before. Where a quota
	// ends within a gang, the rest of a batch is rejected, too; each batch costs a gang that
	// fits the duration of a request.
	createBatchGrowth = 32
)

// createPods creates the Pods in batches, and stops at the first batch with an error, or at the end of the turn. A
// refusal is remembered for the task's status.
func (c *Controller) createPods(ctx context.Context, turn *turn, key cache.ObjectName, task *v1.GPUTask, plan *gputask.Plan) error {
	if refusal := c.queueRefusal(plan.Samples); refusal != nil {
		c.refused(task, refusal)
		return fmt.Errorf("creating Pods: %s", refusal.Message)
	}
	for batch := range createBatches(plan.Create) {
		err := inParallel(turn, batch, func(pod gputask.PlannedPod) error { return c.createPod(ctx, key, task, &pod) })
		if err != nil || turn.unfinished {
			return err
		}
	}
	return nil
}

// createBatches divides Pods into batches of 1, 32, 1024 and so on.
func createBatches[T any](pods []T) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for size, rest := firstCreateBatch, pods; len(rest) > 0; size *= createBatchGrowth {
			batch := rest[:min(size, len(rest))]
			rest = rest[len(batch):]
			if !yield(batch) {
				return
			}
		}
	}
}

func (c *Controller) createPod(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, planned *gputask.PlannedPod) error {
	pod, err := planned.Build()
	if err != nil {
		return fmt.Errorf("building a Pod: %w", err)
	}
	if err := c.rescheduling.Steer(pod); err != nil {
		return err
	}
	c.expectations.ExpectCreation(key, pod.Name)
	created, err := c.clients.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err == nil {
		c.metrics.podsCreated.Inc()
		klog.FromContext(ctx).V(2).Info("Created Pod", "pod", klog.KObj(pod))
		return c.rejectChanged(ctx, key, task, pod, created)
	}
	c.expectations.ObserveCreation(key, pod.Name)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the task is deleted with its namespace
	}
	if apierrors.IsAlreadyExists(err) {
		existing, err := c.clients.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return c.nameConflict(task, "Pod", existing, err)
	}
	c.refused(task, refusals.OfPod(err, pod))
	return fmt.Errorf("creating Pod %s: %w", pod.Name, err)
}

// refused remembers why an object of a task was refused, if that is about the task.
func (c *Controller) refused(task *v1.GPUTask, refusal *gputask.Refusal) {
	if refusal != nil {
		c.refusals.Refused(task, c.podsOf(task), refusal)
	}
}

// accepted forgets why objects of a task were refused, and reports whether they were: those of a plan now
// exist, or none are to be created any more.
func (c *Controller) accepted(key cache.ObjectName, plan *gputask.Plan) bool {
	if len(plan.Create) > 0 || plan.CreateService != nil {
		return c.refusals.Accepted(key)
	}
	return c.refusals.Forget(key)
}

// nameConflict returns an error about an object that could not be created because its name is taken, and
// remembers why if it is not the task's own: somebody else's is never touched. It gets the existing
// object, or the error of getting it.
func (c *Controller) nameConflict(task *v1.GPUTask, kind string, existing metav1.Object, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("creating a %s: one of its name existed a moment ago", kind)
	}
	if err != nil {
		return fmt.Errorf("looking at the %s in the way: %w", kind, err)
	}
	refusal := refusals.OfName(task, kind, existing)
	if refusal == nil {
		return fmt.Errorf("creating %s %s: it exists, the cache does not show it yet", kind, existing.GetName())
	}
	c.refused(task, refusal)
	return errors.New(refusal.Message)
}

// rejectChanged deletes a Pod that was just created if an admission policy or a webhook has changed what the
// controller relies on, while its program runs.
func (c *Controller) rejectChanged(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, sent, created *corev1.Pod) error {
	refusal := refusals.OfChange(sent, created)
	if refusal == nil {
		return nil
	}
	c.expectations.ObserveCreation(key, sent.Name) // the cache may never show it
	c.refused(task, refusal)
	err := c.clients.kube.CoreV1().Pods(created.Namespace).Delete(ctx, created.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(created.UID)),
	})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(fmt.Errorf("creating Pod %s: %s", sent.Name, refusal.Message), err)
}

// deletePods deletes the Pods of a plan if they are unchanged since the decision: neither
// later Pods of the same names, nor Pods that have succeeded in the meantime.
func (c *Controller) deletePods(ctx context.Context, turn *turn, pods []*corev1.Pod) error {
	return inParallel(turn, pods, func(pod *corev1.Pod) error {
		c.uncounted.deletes(pod)
		err := c.clients.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			Preconditions: podwrite.SameVersion(pod),
		})
		if err != nil {
			c.uncounted.deleted(pod)
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil { // a conflict, too: the Pod has changed, decide again
			return fmt.Errorf("deleting Pod %s: %w", pod.Name, err)
		}
		c.metrics.podsDeleted.Inc()
		klog.FromContext(ctx).V(2).Info("Deleted Pod", "pod", klog.KObj(pod))
		return nil
	})
}

// patchMinAvailable updates how many Pods of their gang must start together.
func (c *Controller) patchMinAvailable(ctx context.Context, turn *turn, pods []*corev1.Pod, minAvailable string) error {
	return c.patchPods(ctx, turn, pods, podwrite.Metadata{Labels: map[string]string{v1.LabelMinAvailable: minAvailable}})
}

// confirmCheckpoints passes the time of a task's last checkpoint on to Pods.
func (c *Controller) confirmCheckpoints(ctx context.Context, turn *turn, pods []*corev1.Pod, last string) error {
	return c.patchPods(ctx, turn, pods, podwrite.Metadata{Annotations: map[string]string{v1.AnnotationLastCheckpoint: last}})
}

// declareRuntimes changes what Pods declare of their task's run time.
func (c *Controller) declareRuntimes(ctx context.Context, turn *turn, changes []gputask.RuntimeChange) error {
	return inParallel(turn, changes, func(change gputask.RuntimeChange) error {
		return c.patchPod(ctx, change.Pod, podwrite.Metadata{Annotations: change.Annotations})
	})
}

// patchPods changes the metadata of those Pods that still exist.
func (c *Controller) patchPods(ctx context.Context, turn *turn, pods []*corev1.Pod, change podwrite.Metadata) error {
	return inParallel(turn, pods, func(pod *corev1.Pod) error { return c.patchPod(ctx, pod, change) })
}

// patchPod changes the metadata of a Pod if it still exists.
func (c *Controller) patchPod(ctx context.Context, pod *corev1.Pod, change podwrite.Metadata) error {
	change.UID = pod.UID
	patch, err := podwrite.Patch{Metadata: change}.Bytes()
	if err != nil {
		return err
	}
	_, err = c.clients.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !podwrite.IsGone(err) {
		return fmt.Errorf("changing the labels or annotations of Pod %s: %w", pod.Name, err)
	}
	return nil
}
