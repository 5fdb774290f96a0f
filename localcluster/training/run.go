// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package training says what the simulated program of a Pod has done by when: its steps, what it has saved, and its
// log. All of it follows from the Pod and the time: nothing is kept for Pods that nobody looks at.
package training

import (
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/localcluster/stages"
)

// StepTime is how long a step of the program takes.
const StepTime = 100 * time.Millisecond

// Run is what the program of a Pod does.
type Run struct {
	start time.Time
	// first is the step from which it goes on, and total the last one; 0 if there is none.
	first, total int
	saves        []time.Time
	// end is when it has ended; the zero time while it runs. If it has finished, all its steps are done then.
	end      time.Time
	finished bool
}

// Of returns what the program of a Pod that has started does. If the Pod ends but does not say when, it takes the
// default duration.
func Of(pod *corev1.Pod, byDefault time.Duration) *Run {
	r := &Run{first: First(pod)}
	if _, ends := pod.Annotations[stages.AnnotationFinishAt]; ends {
		duration, err := time.ParseDuration(pod.Annotations[stages.AnnotationDuration])
		if err != nil {
			duration = byDefault
		}
		r.total = int(duration / StepTime)
	}
	for text := range strings.SplitSeq(pod.Annotations[stages.AnnotationCheckpoints], ",") {
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			r.saves = append(r.saves, at)
		}
	}
	for i := range pod.Status.ContainerStatuses { // they start and end together
		switch state := &pod.Status.ContainerStatuses[i].State; {
		case state.Running != nil:
			r.start = state.Running.StartedAt.Time
		case state.Terminated != nil:
			r.start, r.end, r.finished = state.Terminated.StartedAt.Time, state.Terminated.FinishedAt.Time, state.Terminated.ExitCode == 0
		}
	}
	return r
}

// First returns the step from which the program of a Pod goes on.
func First(pod *corev1.Pod) int {
	step, err := strconv.Atoi(pod.Annotations[stages.AnnotationFirstStep])
	if err != nil {
		return 0
	}
	return step
}

// GoOn returns the annotations of a Pod whose program goes on from a step that another one has saved.
func GoOn(pod *corev1.Pod, step int) map[string]string {
	annotations := map[string]string{stages.AnnotationFirstStep: strconv.Itoa(step)}
	if end, err := time.Parse(time.RFC3339Nano, pod.Annotations[stages.AnnotationFinishAt]); err == nil {
		annotations[stages.AnnotationFinishAt] = end.Add(-time.Duration(step) * StepTime).Format(time.RFC3339Nano)
	}
	return annotations
}

// Step returns the last step that is done at a time. Times in the API have a resolution of a second.
func (r *Run) Step(at time.Time) int {
	if r.Ended() && !at.Before(r.end) {
		if at = r.end; r.finished && r.total > 0 {
			return r.total
		}
	}
	step := r.first + max(0, int(at.Sub(r.start)/StepTime))
	if r.total > 0 {
		return min(step, r.total)
	}
	return step
}

// Saved returns the last step that the program has saved, if it has.
func (r *Run) Saved() (step int, saved bool) {
	if len(r.saves) == 0 {
		return 0, false
	}
	return r.Step(r.saves[len(r.saves)-1]), true
}

// Ended reports whether the program has ended.
func (r *Run) Ended() bool { return !r.end.IsZero() }

// StoppedAt returns when the program of a Pod stops that is being deleted, after it had time to save its work; the zero
// time if it has none. It is the end of the second in which the deletion was requested, so that whoever asks gets the
// same answer, and never one before what the program has written already.
func StoppedAt(pod *corev1.Pod) time.Time {
	grace := ptr.Deref(pod.DeletionGracePeriodSeconds, 0)
	if pod.DeletionTimestamp == nil || grace == 0 {
		return time.Time{}
	}
	return pod.DeletionTimestamp.Add(time.Second - time.Duration(grace)*time.Second)
}
