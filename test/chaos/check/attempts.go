// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// InvariantAttempts says that work that is done is not done again, and each failure leads to another attempt:
// a Pod of a task is created again with the number of its attempt only if it was lost, or stopped.
const InvariantAttempts = "no Pod runs twice in an attempt"

// attempts remembers how the Pods of each attempt ended.
type attempts struct {
	ends map[attempt]ended
}

// attempt is one Pod of a task in one of its attempts.
type attempt struct {
	task   types.UID
	pod    string
	number string
}

// ended is how and when the Pod of an attempt has ended.
type ended struct {
	phase corev1.PodPhase
	at    time.Time
	// elapsed is at by the clock of limits.
	elapsed time.Duration
}

func newAttempts() *attempts { return &attempts{ends: map[attempt]ended{}} }

func (a *attempts) take(w *world, s *step) {
	if s.pod == nil {
		return
	}
	task, owned := taskOf(s.pod)
	if !owned {
		return
	}
	key := attempt{task: task, pod: s.pod.Name, number: s.pod.Labels[v1.LabelAttempt]}
	if s.podBefore == nil && !s.gone {
		a.created(w, s.pod, key)
	}
	isNew := s.podBefore == nil || !hasEnded(s.podBefore)
	if isNew && hasEndedByItself(s.pod) && s.pod.DeletionTimestamp == nil {
		a.ends[key] = ended{phase: s.pod.Status.Phase, at: s.At, elapsed: w.elapsed}
	}
}

func (a *attempts) created(w *world, pod *corev1.Pod, key attempt) {
	before, done := a.ends[key]
	if !done {
		return
	}
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[v1.LabelTask]}
	// An end that nobody has seen is not known, says docs/controller.md: somebody else has deleted the Pod, such as
	// Kubernetes with its node. What its user stops, or no longer wants, may run again.
	if !w.deletions.onlyBy(UserController, nameOf(pod), before.at) || w.disruptions.intended(name, before.elapsed-intentGrace, "suspend", "scale") {
		return
	}
	w.report(InvariantAttempts, nameOf(pod), "the Pod was created again in attempt %s, in which it has %s", orNone(key.number), before.phase)
}

func orNone(text string) string {
	if text == "" {
		return "0"
	}
	return text
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// wasDisrupted reports whether a Pod was preempted, evicted, or removed from a node that is lost.
func wasDisrupted(pod *corev1.Pod) bool {
	condition := conditionOf(pod, corev1.DisruptionTarget)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// describeTask names a task for a report.
func describeTask(task *v1.GPUTask) string {
	return fmt.Sprintf("%s: %s", task.Status.Phase, task.Status.Message)
}
