// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

// InvariantWaits says that a task that waits says why, and its Pod says what the scheduler has found.
const InvariantWaits = "every wait is explained"

// waits follows for how long of calm each task has waited without a reason.
type waits struct {
	// since is the calm time at which each task began to wait without saying why.
	since map[types.UID]time.Duration
	next  time.Duration
}

func newWaits() *waits { return &waits{since: map[types.UID]time.Duration{}} }

// waitsPeriod is how often tasks are looked at, in calm time.
const waitsPeriod = time.Second

func (v *waits) take(w *world, s *step) {
	if s.task != nil && s.gone {
		delete(v.since, s.task.UID)
	}
	if w.calm < v.next {
		return
	}
	v.next = w.calm + waitsPeriod
	for uid, task := range w.tasks {
		v.look(w, uid, task)
	}
}

func (v *waits) look(w *world, uid types.UID, task *v1.GPUTask) {
	problem := w.unexplained(task)
	if problem == "" || task.DeletionTimestamp != nil {
		delete(v.since, uid)
		return
	}
	since, known := v.since[uid]
	if !known {
		v.since[uid] = w.calm
		return
	}
	limit := w.config.Explain
	if isFuzzed(task) {
		limit = w.config.ExplainFlood
	}
	if waited := w.calm - since; waited > limit {
		w.report(InvariantWaits, nameOf(task), "for %v: %s", waited.Round(time.Second), problem)
	}
}

// unexplained returns what a task owes its user; nothing if it says why it waits, or need not.
func (w *world) unexplained(task *v1.GPUTask) string {
	switch task.Status.Phase {
	case "":
		return "the task has no status"
	case v1.PhaseWaiting, v1.PhaseSuspended:
		if task.Status.Message == "" {
			return "the task is " + string(task.Status.Phase) + " and has no message"
		}
	case v1.PhasePending:
		return w.unexplainedPods(task)
	case v1.PhaseRunning, v1.PhaseSucceeded, v1.PhaseFailed:
	}
	return ""
}

// unexplainedPods returns what is missing while Pods of a task have no node, or have not started there.
func (w *world) unexplainedPods(task *v1.GPUTask) string {
	if task.Status.Message == "" {
		return "the task is Pending and has no message"
	}
	if !gputask.SaysNoCause(task.Status.Message) {
		return "" // it names a cause
	}
	for _, pod := range w.pods {
		if owner, owned := taskOf(pod); !owned || owner != task.UID || pod.Status.Phase != corev1.PodPending {
			continue
		}
		if pod.Spec.NodeName != "" {
			return "the task says only \"" + task.Status.Message + "\", and not what Pod " + pod.Name + " waits for on node " + pod.Spec.NodeName
		}
		if scheduled := conditionOf(pod, corev1.PodScheduled); scheduled == nil || scheduled.Message == "" {
			return "the task says only \"" + task.Status.Message + "\", and the scheduler says nothing about Pod " + pod.Name
		}
		return "the task says only \"" + task.Status.Message + "\", and not what the scheduler says about Pod " + pod.Name
	}
	return ""
}
