// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package rows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var start = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// at returns a time some seconds after the start.
func at(seconds int) metav1.Time {
	return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))
}

func ptr(seconds int) *metav1.Time { return new(at(seconds)) }

// podWith returns a Pod that was created after some seconds, and changes it.
func podWith(created int, change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "train-0", CreationTimestamp: at(created), Labels: map[string]string{v1.LabelAttempt: "0"}}}
	pod.Status.Phase = corev1.PodPending
	change(pod)
	return pod
}

func scheduled(seconds int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName = "node"
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(seconds)})
	}
}

func running(scheduledAt, began int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		scheduled(scheduledAt)(pod)
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(began)}}}}
	}
}

func ended(scheduledAt, began, end int, exit int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		scheduled(scheduledAt)(pod)
		pod.Status.Phase = corev1.PodSucceeded
		if exit != 0 {
			pod.Status.Phase = corev1.PodFailed
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			StartedAt: at(began), FinishedAt: at(end), ExitCode: exit, Reason: "Error",
		}}}}
	}
}

func disrupted(reason string, before func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		before(pod)
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
	}
}

// interrupted is the status of a task that Pods were taken from while they were stopped.
func interrupted(reason v1.InterruptionReason) v1.GPUTaskStatus {
	return v1.GPUTaskStatus{LastInterruption: &v1.Interruption{Reason: reason}}
}

// text writes spans as "Waiting 0-2 Starting 2-".
func text(spans []Span) string {
	var parts []string
	for _, span := range spans {
		part := string(span.State)
		if span.Begin != "" {
			part = "(" + span.Begin + ") " + part
		}
		part += fmt.Sprintf(" %.0f-", span.From.Sub(start).Seconds())
		if span.To != nil {
			part += fmt.Sprintf("%.0f", span.To.Sub(start).Seconds())
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

func TestSpans(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		lives []Life
		task  v1.GPUTaskStatus
		want  string
	}{
		"a Pod that waits":         {lives: []Life{LifeOf(podWith(0, func(*corev1.Pod) {}), nil)}, want: "Waiting 0-"},
		"a Pod that starts":        {lives: []Life{LifeOf(podWith(0, scheduled(3)), nil)}, want: "Waiting 0-3, Starting 3-"},
		"a Pod that runs":          {lives: []Life{LifeOf(podWith(0, running(3, 5)), nil)}, want: "Waiting 0-3, Starting 3-5, Running 5-"},
		"one that started at once": {lives: []Life{LifeOf(podWith(0, running(0, 0)), nil)}, want: "Running 0-"},
		"a Pod that succeeded":     {lives: []Life{LifeOf(podWith(0, ended(3, 5, 9, 0)), nil)}, want: "Waiting 0-3, Starting 3-5, Running 5-9, Succeeded 9-9"},
		"a Pod that failed and was replaced": {
			lives: []Life{LifeOf(podWith(0, ended(1, 2, 4, 1)), ptr(5)), LifeOf(podWith(6, func(*corev1.Pod) {}), nil)},
			want:  "Waiting 0-1, Starting 1-2, Running 2-4, Failed 4-4, (restarted) Waiting 6-",
		},
		"a Pod that was preempted": {
			lives: []Life{LifeOf(podWith(0, disrupted(corev1.PodReasonPreemptionByScheduler, running(1, 2))), ptr(7)), LifeOf(podWith(8, scheduled(9)), nil)},
			want:  "Waiting 0-1, Starting 1-2, Running 2-7, Preempted 7-7, (preempted) Waiting 8-9, Starting 9-",
		},
		"a Pod that was moved": {
			lives: []Life{LifeOf(podWith(0, disrupted("EvictionByEvictionAPI", running(1, 2))), ptr(7)), LifeOf(podWith(8, scheduled(9)), nil)},
			task:  interrupted(v1.InterruptionMoved),
			want:  "Waiting 0-1, Starting 1-2, Running 2-7, Moved 7-7, (moved) Waiting 8-9, Starting 9-",
		},
		"a Pod that was moved before the task remembered why": {
			lives: []Life{LifeOf(podWith(0, disrupted("EvictionByEvictionAPI", running(1, 2))), ptr(7)), LifeOf(podWith(8, scheduled(9)), nil)},
			task:  v1.GPUTaskStatus{Moves: 1},
			want:  "Waiting 0-1, Starting 1-2, Running 2-7, Moved 7-7, (moved) Waiting 8-9, Starting 9-",
		},
		"a Pod whose node was drained": {
			lives: []Life{LifeOf(podWith(0, disrupted("EvictionByEvictionAPI", running(1, 2))), ptr(7)), LifeOf(podWith(8, scheduled(9)), nil)},
			task:  interrupted(v1.InterruptionDrained),
			want:  "Waiting 0-1, Starting 1-2, Running 2-7, Evicted 7-7, (drained) Waiting 8-9, Starting 9-",
		},
		"a Pod that somebody else has evicted": {
			lives: []Life{LifeOf(podWith(0, disrupted("EvictionByEvictionAPI", running(1, 2))), ptr(7)), LifeOf(podWith(8, scheduled(9)), nil)},
			task:  interrupted(v1.InterruptionEvicted),
			want:  "Waiting 0-1, Starting 1-2, Running 2-7, Evicted 7-7, (evicted) Waiting 8-9, Starting 9-",
		},
		"a Pod that succeeded as it was preempted": {
			lives: []Life{LifeOf(podWith(0, disrupted(corev1.PodReasonPreemptionByScheduler, ended(1, 2, 4, 0))), ptr(5))},
			want:  "Waiting 0-1, Starting 1-2, Running 2-4, Succeeded 4-4",
		},
		"a Pod whose containers failed as it was preempted": {
			lives: []Life{LifeOf(podWith(0, disrupted(corev1.PodReasonPreemptionByScheduler, ended(1, 2, 4, 143))), ptr(5))},
			want:  "Waiting 0-1, Starting 1-2, Running 2-4, Preempted 4-4",
		},
		"a Pod whose node was lost": {
			lives: []Life{LifeOf(podWith(0, disrupted("DeletionByTaintManager", running(1, 2))), ptr(7)), LifeOf(podWith(8, scheduled(9)), nil)},
			want:  "Waiting 0-1, Starting 1-2, Running 2-7, Gone 7-7, (lost with its node) Waiting 8-9, Starting 9-",
		},
		"a Pod that somebody deleted while it waited": {
			lives: []Life{LifeOf(podWith(8, func(*corev1.Pod) {}), nil), LifeOf(podWith(0, func(*corev1.Pod) {}), ptr(7))},
			want:  "Waiting 0-7, Gone 7-7, (replaced) Waiting 8-",
		},
		"a node whose clock is behind": {lives: []Life{LifeOf(podWith(10, ended(10, 7, 8, 0)), nil)}, want: "Running 7-8, Succeeded 8-8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := text(Spans(test.lives, &test.task)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestATimelineSaysForWhomAPodWasPreempted(t *testing.T) {
	t.Parallel()
	pod := podWith(0, disrupted(corev1.PodReasonPreemptionByScheduler, running(1, 2)))
	pod.Status.Conditions[len(pod.Status.Conditions)-1].Message = "task big (priority 100) needs its place"
	spans := Spans([]Life{LifeOf(pod, ptr(7))}, &v1.GPUTaskStatus{})
	if last := spans[len(spans)-1]; last.Note != "preempted: task big (priority 100) needs its place" {
		t.Errorf("its end is %+v", last)
	}
}
