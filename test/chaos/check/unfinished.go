// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// unfinished is something that has to happen before the cluster has converged.
type unfinished struct {
	invariant, subject, text string
}

// unfinished returns what has not ended, and is to.
func (w *world) unfinished() []unfinished {
	var left []unfinished
	for _, task := range w.tasks {
		if w.mustEnd(task) {
			left = append(left, unfinished{InvariantConvergence, nameOf(task), "the task is " + describeTask(task)})
		}
	}
	for _, pod := range w.pods {
		if w.isOrphan(pod) {
			left = append(left, unfinished{InvariantLeftovers, nameOf(pod), "the Pod is still there, and its task is gone"})
		}
	}
	for _, plan := range w.plans {
		if isUnderWay(plan) {
			left = append(left, unfinished{InvariantLeftovers, plan.Name, "the plan is still " + string(plan.Status.Phase) + ": " + plan.Status.Message})
		}
	}
	return left
}

// Unfinished returns what has to happen before the cluster has converged, as lines of a report.
func (c *Checker) Unfinished() []string {
	var lines []string
	for _, one := range c.world.unfinished() {
		lines = append(lines, one.subject+": "+one.text)
	}
	slices.Sort(lines)
	return lines
}

// mustEnd reports whether a task is to end, and has not. A task that can't start, is suspended, or waits
// for another one that need not end, need not.
func (w *world) mustEnd(task *v1.GPUTask) bool {
	suspended := task.Spec.Suspend != nil && *task.Spec.Suspend
	if isInfeasible(task) || isFuzzed(task) || suspended && task.Status.Phase == v1.PhaseSuspended {
		return false
	}
	switch task.Status.Phase {
	case v1.PhaseSucceeded, v1.PhaseFailed:
		return false
	case v1.PhaseWaiting:
		return w.dependenciesEnded(task)
	default:
		return true
	}
}

// dependenciesEnded reports whether all tasks that a task depends on exist and have ended: well or not,
// it can then go on, or has failed with them.
func (w *world) dependenciesEnded(task *v1.GPUTask) bool {
	for i := range task.Spec.DependsOn {
		other := w.tasks[w.taskNames[types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.DependsOn[i].Name}]]
		if other == nil || other.Status.Phase != v1.PhaseSucceeded && other.Status.Phase != v1.PhaseFailed {
			return false
		}
	}
	return true
}

// isOrphan reports whether the task that owns a Pod is gone.
func (w *world) isOrphan(pod *corev1.Pod) bool {
	uid, owned := taskOf(pod)
	return owned && w.goneTasks[uid]
}

// isUnderWay reports whether a plan is being carried out, or is about to be.
func isUnderWay(plan *v1.MovePlan) bool {
	return plan.Status.Phase == v1.PlanExecuting || plan.Status.Phase == v1.PlanApproved
}
