// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// The invariants of tasks.
const (
	// InvariantConvergence says that when faults and load are over, every task that fits ends, within a bound.
	InvariantConvergence = "what fits ends"
	// InvariantLost says that no task disappears that its user has not deleted.
	InvariantLost = "no task is lost"
)

// convergence looks at what has become of the tasks.
type convergence struct {
	// loadEnded is when faults and load had ended.
	loadEnded time.Duration
}

func (c *convergence) take(w *world, s *step) {
	switch {
	case s.task != nil && s.gone:
		lost(w, s.task)
	case s.Mark == history.LoadEnds || s.Mark == history.FaultsEnd:
		c.loadEnded = w.elapsed
	case s.Mark == history.End && !w.marks[history.Converged]:
		c.unfinished(w)
	}
}

// unfinished reports the tasks for which the campaign has waited in vain. Which ones it need not wait
// for, Awaited says.
func (c *convergence) unfinished(w *world) {
	if !w.marks[history.LoadEnds] || w.elapsed-c.loadEnded < w.config.Converge {
		return // it was stopped before
	}
	for _, task := range w.tasks {
		if Awaited(task) {
			w.report(InvariantConvergence, nameOf(task), "%v after faults and load had ended the task is %s", (w.elapsed - c.loadEnded).Round(time.Second), describeTask(task))
		}
	}
	for _, pod := range w.pods {
		if uid, owned := taskOf(pod); owned && w.goneTasks[uid] {
			w.report(InvariantConvergence, nameOf(pod), "%v after faults and load had ended the Pod is still there, and its task is gone", (w.elapsed - c.loadEnded).Round(time.Second))
		}
	}
}

// Awaited reports whether a task is to end, and has not. A task that can't start, is suspended, or
// waits for another one that does not exist need not.
func Awaited(task *v1.GPUTask) bool {
	suspended := task.Spec.Suspend != nil && *task.Spec.Suspend
	if isInfeasible(task) || isFuzzed(task) || suspended && task.Status.Phase == v1.PhaseSuspended {
		return false
	}
	switch task.Status.Phase {
	case v1.PhaseSucceeded, v1.PhaseFailed:
		return false
	case v1.PhaseWaiting:
		return len(task.Spec.DependsOn) == 0
	default:
		return true
	}
}

// Unfinished returns what has to happen before the cluster has converged.
func (c *Checker) Unfinished() []string {
	var left []string
	for _, task := range c.world.tasks {
		if Awaited(task) {
			left = append(left, nameOf(task)+" is "+describeTask(task))
		}
	}
	for _, pod := range c.world.pods {
		if uid, owned := taskOf(pod); owned && c.world.goneTasks[uid] {
			left = append(left, "Pod "+nameOf(pod)+" of a task that is gone")
		}
	}
	for _, plan := range c.world.plans {
		if plan.Status.Phase == v1.PlanExecuting || plan.Status.Phase == v1.PlanApproved {
			left = append(left, "MovePlan "+plan.Name+" is "+string(plan.Status.Phase))
		}
	}
	slices.Sort(left)
	return left
}

func lost(w *world, task *v1.GPUTask) {
	switch {
	case isFuzzed(task), w.leaving[task.Namespace], w.upset.namespaces[task.Namespace], w.upset.did(keyOf(task), "delete"), w.tasksForgotten():
	case task.Spec.TTLSecondsAfterFinished != nil && task.Status.CompletionTime != nil:
	default:
		w.report(InvariantLost, nameOf(task), "the task is gone, and nobody has deleted it; it was %s", describeTask(task))
	}
}
