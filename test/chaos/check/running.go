// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// InvariantRunning says that a Pod of a task that runs is stopped only for a reason: its user wants it, its
// node or its task's definition is gone, its task restarts or has ended, it is evicted or preempted.
// That a process was killed is none.
const InvariantRunning = "what runs is not stopped without a reason"

// running follows Pods that run, and reports those that are deleted without a reason.
type running struct{}

func newRunning() *running { return &running{} }

func (r *running) take(w *world, s *step) {
	if s.podBefore == nil || s.podBefore.Status.Phase != corev1.PodRunning || s.podBefore.DeletionTimestamp != nil {
		return
	}
	if !s.gone && s.pod.DeletionTimestamp == nil || hasEnded(s.pod) {
		return
	}
	uid, owned := taskOf(s.pod)
	// What is evicted, by a plan or otherwise, or preempted, says so.
	if !owned || s.pod.Labels[LabelFuzzed] != "" || wasDisrupted(s.pod) {
		return
	}
	if !w.explains(s.pod, uid) {
		w.report(InvariantRunning, nameOf(s.pod), "the Pod ran on node %s and was deleted; its task is %s", s.pod.Spec.NodeName, w.describe(uid))
	}
}

func (w *world) describe(task types.UID) string {
	if found := w.tasks[task]; found != nil {
		return describeTask(found)
	}
	return "gone"
}

// explains reports whether something explains that a Pod of a task stops.
func (w *world) explains(pod *corev1.Pod, uid types.UID) bool {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1.LabelTask]}
	task := w.tasks[uid]
	switch {
	case task == nil, task.DeletionTimestamp != nil, w.leaving[pod.Namespace]:
		return true // deleted with its task, or its task is before the history
	case task.Spec.Suspend != nil && *task.Spec.Suspend, w.intendedLately(name, "suspend", "scale", "delete"), w.crdDeleted(crdTasks):
		return true
	case task.Spec.SuccessPolicy != nil, task.Spec.OnLostPod == v1.LostPodRestartTask:
		return true // its Pods stop when others end
	default:
		return isEnding(task) || isStale(task, pod)
	}
}

func isEnding(task *v1.GPUTask) bool {
	for i := range task.Status.Conditions {
		switch c := &task.Status.Conditions[i]; c.Type {
		case v1.ConditionFailureTarget, v1.ConditionFailed, v1.ConditionSucceeded:
			if c.Status == "True" {
				return true
			}
		}
	}
	return false
}

// isStale reports whether a Pod is of an attempt that is over.
func isStale(task *v1.GPUTask, pod *corev1.Pod) bool {
	number, err := strconv.Atoi(orNone(pod.Labels[v1.LabelAttempt]))
	if err != nil {
		return true // somebody has changed its label: it is replaced, says docs/gputask-status.md
	}
	if whole := task.Status.TaskRestarts; whole != nil && int(whole.Count) > number {
		return true
	}
	return task.Status.TaskRestarts == nil && int(task.Status.Restarts) > number
}

// isMoved reports whether a plan that is being carried out moves a Pod, or has evicted it.
func (w *world) isMoved(pod *corev1.Pod) bool {
	for _, plan := range w.plans {
		if moveOf(plan, pod) != nil {
			return true
		}
	}
	return false
}

// moveOf returns the move of a Pod by a plan that is being carried out or has evicted the Pod, nil if
// there is none.
func moveOf(plan *v1.MovePlan, pod *corev1.Pod) *v1.Move {
	for i := range plan.Spec.Moves {
		if plan.Spec.Moves[i].PodUID != pod.UID {
			continue
		}
		evicted := i < len(plan.Status.Moves) && plan.Status.Moves[i].EvictedAt != nil
		if evicted || plan.Status.Phase == v1.PlanExecuting {
			return &plan.Spec.Moves[i]
		}
	}
	return nil
}
