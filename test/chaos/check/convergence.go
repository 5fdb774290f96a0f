// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
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
	case s.Mark == history.End:
		c.report(w)
	}
}

// report reports what has not ended: some time after the load has, or after all had ended already.
func (c *convergence) report(w *world) {
	waited := w.elapsed - c.loadEnded
	if !w.marks[history.LoadEnds] || waited < w.config.Converge && !w.marks[history.Converged] {
		return // the campaign was stopped before
	}
	for _, one := range w.unfinished() {
		w.report(one.invariant, one.subject, "%v after faults and load had ended %s", waited.Round(time.Second), one.text)
	}
}

func lost(w *world, task *v1.GPUTask) {
	switch {
	case isFuzzed(task), w.leaving[task.Namespace], w.disruptions.intended(keyOf(task), 0, "delete"), w.crdDeleted(crdTasks):
	case task.Spec.TTLSecondsAfterFinished != nil && task.Status.CompletionTime != nil:
	default:
		w.report(InvariantLost, nameOf(task), "the task is gone, and nobody has deleted it; it was %s", describeTask(task))
	}
}
