// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// InvariantFailures says that status.restarts counts each failure once: never more than there were, and in the
// end none less.
const InvariantFailures = "each failure is counted once"

// failures follows which Pods have failed.
type failures struct {
	tasks map[types.UID]*failedTask
	seen  map[types.UID]bool
}

// failedTask is what has failed of a task: the attempts that had at least one failed Pod if its Pods
// restart together, the attempts of each Pod otherwise.
type failedTask struct {
	attempts, podAttempts map[attempt]bool
	// before is what status.restarts was in the first revision in the history: failures before that
	// are not in it.
	before  int
	started bool
	// uncertain is true if a failed Pod was deleted by others than the controller, which may not have
	// seen it.
	uncertain bool
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
	return &failures{tasks: map[types.UID]*failedTask{}, seen: map[types.UID]bool{}}
}

func (f *failures) take(w *world, s *step) {
	switch {
	case s.pod != nil:
		f.follow(w, s)
	case s.task != nil && !s.gone:
		f.notTooMany(w, s.task)
	case s.Mark == history.Converged:
		for _, task := range w.tasks {
			f.notTooFew(w, task)
		}
	}
}

func (f *failures) follow(w *world, s *step) {
	uid, owned := taskOf(s.pod)
	if !owned {
		return
	}
	if s.gone && s.pod.Status.Phase == corev1.PodFailed && w.lostNode(s.pod.Spec.NodeName) {
		f.of(uid).uncertain = true
	}
	if s.pod.Status.Phase != corev1.PodFailed || f.seen[s.pod.UID] || wasDisrupted(s.pod) {
		return
	}
	f.seen[s.pod.UID] = true
	number := s.pod.Labels[v1.LabelAttempt]
	f.of(uid).attempts[attempt{task: uid, number: number}] = true
	f.of(uid).podAttempts[attempt{task: uid, number: number, pod: s.pod.Name}] = true
}

func (f *failures) of(task types.UID) *failedTask {
	if f.tasks[task] == nil {
		f.tasks[task] = &failedTask{attempts: map[attempt]bool{}, podAttempts: map[attempt]bool{}}
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
	if !final || known.uncertain || isFuzzed(task) || w.upset.did(keyOf(task), "suspend", "scale") || task.Spec.FailureRules != nil {
		return
	}
	if int(task.Status.Restarts) < want {
		w.report(InvariantFailures, nameOf(task), "status.restarts is %d in the end (phase %s), and %d failures should have been counted", task.Status.Restarts, task.Status.Phase, want)
	}
}

func isFuzzed(task *v1.GPUTask) bool { return task.Labels[LabelFuzzed] != "" }

func isInfeasible(task *v1.GPUTask) bool { return task.Labels[LabelInfeasible] != "" }
