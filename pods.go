// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/expectations"
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

// reasonForceDeleted is the reason of the Event about a Pod that was deleted by force.
const reasonForceDeleted = "PodForceDeleted"

// podWriter creates, changes and deletes the Pods and the Services of tasks.
type podWriter struct {
	*dependencies
	expectations *expectations.Expectations[cache.ObjectName]
	refusals     *refusals.Tasks
	uncounted    *uncountedPods
}

// createPods creates the Pods in batches, and stops at the first batch with an error, or at the end of the turn. A
// refusal is remembered for the task's status.
func (w *podWriter) createPods(ctx context.Context, turn *turn, key cache.ObjectName, task *v1.GPUTask, plan *gputask.Plan) error {
	if refusal := w.queueRefusal(plan.Samples); refusal != nil {
		w.refused(task, refusal)
		return fmt.Errorf("creating Pods: %s", refusal.Message)
	}
	for batch := range createBatches(plan.Create) {
		err := inParallel(turn, batch, func(pod gputask.PlannedPod) error { return w.createPod(ctx, key, task, &pod) })
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

func (w *podWriter) createPod(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, planned *gputask.PlannedPod) error {
	pod, err := planned.Build()
	if err != nil {
		return fmt.Errorf("building a Pod: %w", err)
	}
	if err := w.rescheduling.Steer(pod); err != nil {
		return err
	}
	w.expectations.ExpectCreation(key, pod.Name)
	created, err := w.clients.kube.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err == nil {
		w.metrics.podsCreated.Inc()
		klog.FromContext(ctx).V(2).Info("Created Pod", "pod", klog.KObj(pod))
		return w.rejectChanged(ctx, key, task, pod, created)
	}
	w.expectations.ObserveCreation(key, pod.Name)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the task is deleted with its namespace
	}
	if apierrors.IsAlreadyExists(err) {
		existing, err := w.clients.kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return w.nameConflict(task, "Pod", existing, err)
	}
	w.refused(task, refusals.OfPod(err, pod))
	return fmt.Errorf("creating Pod %s: %w", pod.Name, err)
}

// refused remembers why an object of a task was refused, if that is about the task.
func (w *podWriter) refused(task *v1.GPUTask, refusal *gputask.Refusal) {
	if refusal != nil {
		w.refusals.Refused(task, w.podsOf(task), refusal)
	}
}

// accepted forgets why objects of a task were refused, and reports whether they were: those of a plan now
// exist, or none are to be created any more.
func (w *podWriter) accepted(key cache.ObjectName, plan *gputask.Plan) bool {
	if len(plan.Create) > 0 || plan.CreateService != nil {
		return w.refusals.Accepted(key)
	}
	return w.refusals.Forget(key)
}

// nameConflict returns an error about an object that could not be created because its name is taken, and
// remembers why if it is not the task's own: somebody else's is never touched. It gets the existing
// object, or the error of getting it.
func (w *podWriter) nameConflict(task *v1.GPUTask, kind string, existing metav1.Object, err error) error {
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
	w.refused(task, refusal)
	return errors.New(refusal.Message)
}

// rejectChanged deletes a Pod that was just created if an admission policy or a webhook has changed what the
// controller relies on, while its program runs.
func (w *podWriter) rejectChanged(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, sent, created *corev1.Pod) error {
	refusal := refusals.OfChange(sent, created)
	if refusal == nil {
		return nil
	}
	w.expectations.ObserveCreation(key, sent.Name) // the cache may never show it
	w.refused(task, refusal)
	err := w.clients.kube.CoreV1().Pods(created.Namespace).Delete(ctx, created.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(created.UID)),
	})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(fmt.Errorf("creating Pod %s: %s", sent.Name, refusal.Message), err)
}

// deletePods deletes the Pods of a plan if they are unchanged since the decision: neither
// later Pods of the same names, nor Pods that have succeeded in the meantime.
func (w *podWriter) deletePods(ctx context.Context, turn *turn, pods []*corev1.Pod) error {
	return inParallel(turn, pods, func(pod *corev1.Pod) error {
		w.uncounted.deletes(pod)
		err := w.clients.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			Preconditions: podwrite.SameVersion(pod),
		})
		if err != nil {
			w.uncounted.deleted(pod)
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil { // a conflict, too: the Pod has changed, decide again
			return fmt.Errorf("deleting Pod %s: %w", pod.Name, err)
		}
		w.metrics.podsDeleted.Inc()
		klog.FromContext(ctx).V(2).Info("Deleted Pod", "pod", klog.KObj(pod))
		return nil
	})
}

// forceDelete deletes Pods without waiting for their nodes to confirm that they have stopped.
func (w *podWriter) forceDelete(ctx context.Context, turn *turn, task *v1.GPUTask, pods []*corev1.Pod) error {
	return inParallel(turn, pods, func(pod *corev1.Pod) error {
		err := w.clients.kube.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: podwrite.SameVersion(pod),
		})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("deleting Pod %s by force: %w", pod.Name, err)
		}
		w.recorder.Eventf(task, corev1.EventTypeWarning, reasonForceDeleted,
			"Pod %s is replaced although it may still run: its node %s has been unreachable for longer than unreachableNodeTimeoutSeconds",
			pod.Name, pod.Spec.NodeName)
		return nil
	})
}

// patchMinAvailable updates how many Pods of their gang must start together.
func (w *podWriter) patchMinAvailable(ctx context.Context, turn *turn, pods []*corev1.Pod, minAvailable string) error {
	change := podwrite.Metadata{Labels: map[string]string{v1.LabelMinAvailable: minAvailable}}
	return inParallel(turn, pods, func(pod *corev1.Pod) error { return w.patchPod(ctx, pod, change) })
}

// confirmCheckpoints passes the time of a task's last checkpoint on to Pods.
func (w *podWriter) confirmCheckpoints(ctx context.Context, turn *turn, pods []*corev1.Pod, last time.Time) error {
	return inParallel(turn, pods, func(pod *corev1.Pod) error { return w.patchPod(ctx, pod, checkpoint.Confirm(pod, last)) })
}

// declareRuntimes changes what Pods declare of their task's run time.
func (w *podWriter) declareRuntimes(ctx context.Context, turn *turn, changes []gputask.RuntimeChange) error {
	return inParallel(turn, changes, func(change gputask.RuntimeChange) error {
		return w.patchPod(ctx, change.Pod, podwrite.Metadata{Annotations: change.Annotations})
	})
}

// patchPod changes the metadata of a Pod if it still exists.
func (w *podWriter) patchPod(ctx context.Context, pod *corev1.Pod, change podwrite.Metadata) error {
	change.UID = pod.UID
	patch, err := podwrite.Patch{Metadata: change}.Bytes()
	if err != nil {
		return err
	}
	_, err = w.clients.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !podwrite.IsGone(err) {
		return fmt.Errorf("changing the labels or annotations of Pod %s: %w", pod.Name, err)
	}
	return nil
}

// expectedService is the name of a Service among the expected creations, the others of which are
// Pods.
func expectedService(name string) string { return "service/" + name }

// createService creates the Service of a task, if there is one to create. A refusal is remembered for
// the task's status.
func (w *podWriter) createService(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, service *corev1.Service) error {
	if service == nil {
		return nil
	}
	w.expectations.ExpectCreation(key, expectedService(service.Name))
	_, err := w.clients.kube.CoreV1().Services(service.Namespace).Create(ctx, service, metav1.CreateOptions{})
	if err == nil {
		klog.FromContext(ctx).V(2).Info("Created Service", "service", klog.KObj(service))
		return nil
	}
	w.expectations.ObserveCreation(key, expectedService(service.Name))
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil // the task is deleted with its namespace
	}
	if apierrors.IsAlreadyExists(err) {
		existing, err := w.clients.kube.CoreV1().Services(service.Namespace).Get(ctx, service.Name, metav1.GetOptions{})
		return w.nameConflict(task, "Service", existing, err)
	}
	w.refused(task, refusals.Of(err, "Service"))
	return fmt.Errorf("creating Service %s: %w", service.Name, err)
}
