// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// InvariantFailures says that status.restarts counts each failure once: never more than there were, and in the
// end none less. Pods that were refused, evicted or lost have not failed, and end no task.
const InvariantFailures = "each failure is counted once"

// failures follows which Pods have failed.
type failures struct {
	tasks map[types.UID]*failedTask
	// seen is when each Pod that has failed was seen so first.
	seen map[types.UID]time.Time
}

// failedTask is what has failed of a task: the attempts that had at least one failed Pod if its Pods
// restart together, the attempts of each Pod otherwise.
type failedTask struct {
	attempts, podAttempts map[attempt]bool
	// before is what status.restarts was in the first revision in the history: failures before that
	// are not in it.
	before  int
	started bool
	// gone is when each Pod had failed that was deleted afterwards, by namespace and name.
	gone map[string]time.Time
}

func (f *failedTask) count(task *v1.GPUTask) int {
	if task.Spec.FailurePolicy == v1.RestartPod || task.Spec.Completions != nil {
		return len(f.podAttempts)
	}
	for i := range task.Spec.Roles {
		if task.Spec.Roles[i].FailurePolicy == v1.RestartPod {
			return len(f.podAttempts)
		}
	}
	return len(f.attempts)
}

func newFailures() *failures {
	return &failures{tasks: map[types.UID]*failedTask{}, seen: map[types.UID]time.Time{}}
}

func (f *failures) take(w *world, s *step) {
	switch {
	case s.pod != nil:
		f.follow(s)
	case s.task != nil && !s.gone:
		f.notTooMany(w, s.task)
	case s.Mark == history.Converged:
		for _, task := range w.tasks {
			f.notTooFew(w, task)
		}
	}
}

func (f *failures) follow(s *step) {
	uid, owned := taskOf(s.pod)
	if !owned {
		return
	}
	at, seen := f.seen[s.pod.UID]
	if seen && s.gone {
		f.of(uid).gone[nameOf(s.pod)] = at
	}
	if seen || !hasFailedByItself(s.pod) {
		return
	}
	f.seen[s.pod.UID] = s.At
	number := s.pod.Labels[v1.LabelAttempt]
	f.of(uid).attempts[attempt{task: uid, number: number}] = true
	f.of(uid).podAttempts[attempt{task: uid, number: number, pod: s.pod.Name}] = true
}

func (f *failures) of(task types.UID) *failedTask {
	if f.tasks[task] == nil {
		f.tasks[task] = &failedTask{attempts: map[attempt]bool{}, podAttempts: map[attempt]bool{}, gone: map[string]time.Time{}}
	}
	return f.tasks[task]
}

func (f *failures) notTooMany(w *world, task *v1.GPUTask) {
	known := f.of(task.UID)
	if !known.started {
		known.started, known.before = true, int(task.Status.Restarts)
	}
	if happened := known.before + known.count(task); int(task.Status.Restarts) > happened {
		w.report(InvariantFailures, nameOf(task), "status.restarts is %d, and there were %d failures", task.Status.Restarts, happened)
	}
	if happened, limit := known.before+known.count(task), int(ptr.Deref(task.Spec.BackoffLimit, defaultBackoffLimit)); hasTooMany(task) && happened <= limit {
		w.report(InvariantFailures, nameOf(task), "the task has ended because no restarts are left; its backoffLimit is %d, and there were %d failures", limit, happened)
	}
}

// defaultBackoffLimit is that of tasks that have none.
const defaultBackoffLimit = 6

// hasTooMany reports whether a task has ended, or is about to, because of its failures.
func hasTooMany(task *v1.GPUTask) bool {
	return slices.ContainsFunc(task.Status.Conditions, func(c metav1.Condition) bool {
		return c.Status == metav1.ConditionTrue && c.Reason == v1.ReasonBackoffLimitExceeded
	})
}

// deletedByOthers reports whether somebody else than gpu-controller has deleted a Pod that had failed, or
// may have: then gpu-controller may not have seen it.
func (f *failedTask) deletedByOthers(w *world) bool {
	for name, at := range f.gone {
		if !w.deletions.onlyBy(UserController, name, at) {
			return true
		}
	}
	return false
}

// notTooFew is for tasks that have ended. The failure that ends a task is followed by no restart.
func (f *failures) notTooFew(w *world, task *v1.GPUTask) {
	known := f.of(task.UID)
	want := known.count(task)
	if task.Status.Phase == v1.PhaseFailed {
		// Those that go beyond the limit are not followed by a restart: of Pods that restart by
		// themselves, as many as have failed together.
		want = min(want-1, len(known.attempts)-1)
	}
	final := task.Status.Phase == v1.PhaseFailed || task.Status.Phase == v1.PhaseSucceeded
	// What fails while it is suspended, or not wanted any more, need not be counted.
	unsure := w.disruptions.intended(keyOf(task), 0, "suspend", "scale") || known.deletedByOthers(w)
	if !final || unsure || isFuzzed(task) || task.Spec.FailureRules != nil {
		return
	}
	if int(task.Status.Restarts) < want {
		w.report(InvariantFailures, nameOf(task), "status.restarts is %d in the end (phase %s), and %d failures should have been counted", task.Status.Restarts, task.Status.Phase, want)
	}
}

func isFuzzed(task *v1.GPUTask) bool { return task.Labels[LabelFuzzed] != "" }

func isInfeasible(task *v1.GPUTask) bool { return task.Labels[LabelInfeasible] != "" }
