// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package accounting

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/pkg/accounting"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/podfacts"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// translator says what Pods are accounted to.
type translator struct {
	queueOf func(*corev1.Pod) string
	modelOf func(node string) string
	// task returns the task that a Pod belongs to, nil if there is none.
	task   func(*corev1.Pod) *v1.GPUTask
	labels []string
	// since is up to when everything is counted.
	since time.Time
}

func (b *Bookkeeper) translator() *translator {
	return &translator{queueOf: b.queues(), modelOf: b.model, task: b.task, labels: b.options.Labels, since: b.book.AsOf}
}

// queues returns a function that returns the queues of Pods.
func (b *Bookkeeper) queues() func(*corev1.Pod) string {
	tree := b.deps.QueueTree()
	if tree == nil {
		return func(*corev1.Pod) string { return "" }
	}
	view := gpuqueue.NewView(tree)
	cluster := &gpuqueue.Cluster{Tree: tree, Namespace: b.deps.NamespaceOf}
	return func(pod *corev1.Pod) string { return view.QueueOf(cluster, pod) }
}

// model returns the GPU model of a node, also of one that was deleted since it was last asked for.
func (b *Bookkeeper) model(name string) string {
	if node := b.deps.Pods.Node(name); node != nil {
		b.models[name] = snapshot.Model(node)
	}
	return b.models[name]
}

func (b *Bookkeeper) task(pod *corev1.Pod) *v1.GPUTask {
	owner := gputask.ControllerOf(pod)
	if owner == nil {
		return nil
	}
	task, err := b.deps.Tasks.GPUTasks(pod.Namespace).Get(owner.Name)
	if err != nil || task.UID != owner.UID {
		return nil // a lister's only error is not found
	}
	return task
}

// pod returns what a Pod has done, as far as it is known.
func (t *translator) pod(pod *corev1.Pod) accounting.Pod {
	done := accounting.Pod{
		Key: accounting.Key{
			Namespace: pod.Namespace, Task: taskName(pod), Queue: t.queueOf(pod), Labels: accounting.FormatLabels(pod.Labels, t.labels),
		},
		GPUs: gpuqueue.Amount(pod),
	}
	if len(pod.Spec.SchedulingGates) == 0 {
		done.Submitted = pod.CreationTimestamp.Time
	}
	if pod.Spec.NodeName != "" {
		done.Key.Model = t.modelOf(pod.Spec.NodeName)
		done.Started, _ = podfacts.BoundAt(pod)
	}
	if done.Started.IsZero() || !done.Started.Before(t.since) { // not what is counted already
		done.WantedModel = gpuqueue.WantedModel(pod)
	}
	if podfacts.Ended(pod) {
		done.Ended = endOf(pod)
		if task := t.task(pod); isLost(pod, task) {
			done.LostSince = lostSince(pod, task, done.Ended)
		}
	}
	return done
}

// taskName returns the name of a Pod's GPUTask, and kind and name of what else controls it: "Job/train".
func taskName(pod *corev1.Pod) string {
	if owner := gputask.ControllerOf(pod); owner != nil {
		return owner.Name
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind + "/" + owner.Name
	}
	return "Pod/" + pod.Name
}

// endOf returns when a Pod ended: if none of its containers has run, when its status changed last, by the clock of
// whoever changed it.
func endOf(pod *corev1.Pod) time.Time {
	if ended, known := podfacts.EndedAt(pod); known {
		return ended
	}
	last := pod.CreationTimestamp.Time
	for i := range pod.Status.Conditions {
		if changed := pod.Status.Conditions[i].LastTransitionTime.Time; changed.After(last) {
			last = changed
		}
	}
	return last
}

// isLost reports whether the work of a Pod that has ended was lost since its last checkpoint. That of a Pod which
// somebody has deleted is, unless it was with its task, or after that has succeeded. A Pod of another controller may
// just not be needed any more.
func isLost(pod *corev1.Pod, task *v1.GPUTask) bool {
	switch {
	case pod.Spec.NodeName == "", podfacts.WasRefused(pod):
		return false // it has done none
	case podfacts.IsDisrupted(pod):
		return true
	case pod.Status.Phase == corev1.PodSucceeded:
		return false
	case pod.Status.Reason != gpupods.ReasonDeleted:
		return true
	default:
		return task != nil && task.DeletionTimestamp == nil && task.Status.Phase != v1.PhaseSucceeded
	}
}

// lostSince returns the time of the last checkpoint of a Pod that has ended, or when it began if there was none.
func lostSince(pod *corev1.Pod, task *v1.GPUTask, ended time.Time) time.Time {
	stopped := checkpoint.Pod{Pod: pod}
	if task != nil {
		stopped.Task = task.Annotations
	}
	return stopped.Since(ended)
}
