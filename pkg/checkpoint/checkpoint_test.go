// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package checkpoint

import (
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/podfacts"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }

// seenByAClock has the node see a Pod as soon as it is bound, by a clock that is ahead, or behind.
func seenByAClock(p *corev1.Pod, ahead time.Duration) {
	bound := metav1.NewTime(now.Add(-2 * time.Hour))
	seen := metav1.NewTime(bound.Add(ahead))
	p.Status.StartTime = &seen
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound}}
}

func TestBefore(t *testing.T) {
	t.Parallel()
	const timeout, requested, saved = v1.AnnotationCheckpointTimeout, v1.AnnotationCheckpointRequested, v1.AnnotationLastCheckpoint
	tests := map[string]struct {
		annotations, task map[string]string
		change            func(*corev1.Pod)
		ask               bool
		wait              time.Duration
	}{
		"a Pod that does not ask for time is stopped at once":            {},
		"a Pod is asked first":                                           {annotations: map[string]string{timeout: "60"}, ask: true, wait: time.Minute},
		"a Pod that was asked has the rest of its time":                  {annotations: map[string]string{timeout: "60", requested: ago(20 * time.Second)}, wait: 40 * time.Second},
		"a Pod whose time is up is stopped":                              {annotations: map[string]string{timeout: "60", requested: ago(time.Minute)}},
		"a Pod that has saved its work is stopped":                       {annotations: map[string]string{timeout: "60", requested: ago(20 * time.Second), saved: ago(time.Second)}},
		"a Pod whose task has saved its work is stopped":                 {annotations: map[string]string{timeout: "60", requested: ago(20 * time.Second)}, task: map[string]string{saved: ago(time.Second)}},
		"a Pod that saved its work within the second of the request":     {annotations: map[string]string{timeout: "60", requested: ago(20 * time.Second), saved: ago(20 * time.Second)}},
		"a checkpoint before the request does not count":                 {annotations: map[string]string{timeout: "60", requested: ago(20 * time.Second), saved: ago(21 * time.Second)}, wait: 40 * time.Second},
		"a request that was made for something else long ago is renewed": {annotations: map[string]string{timeout: "60", requested: ago(time.Hour), saved: ago(59 * time.Minute)}, ask: true, wait: time.Minute},
		"a Pod that has saved its work by a clock that is an hour behind": {
			annotations: map[string]string{timeout: "60", requested: ago(20 * time.Second), saved: ago(time.Hour + time.Second)},
			change:      func(p *corev1.Pod) { seenByAClock(p, -time.Hour) },
		},
		"a checkpoint before the request by a clock that is an hour ahead": {
			annotations: map[string]string{timeout: "60", requested: ago(20 * time.Second), saved: ago(21*time.Second - time.Hour)},
			change:      func(p *corev1.Pod) { seenByAClock(p, time.Hour) }, wait: 40 * time.Second,
		},
		"a Pod that does not run has nothing to save":                  {annotations: map[string]string{timeout: "60"}, change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }},
		"a Pod that is being deleted is past saving":                   {annotations: map[string]string{timeout: "60"}, change: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} }},
		"a Pod can't ask for more time than a task":                    {annotations: map[string]string{timeout: "99999"}, ask: true, wait: time.Hour},
		"a timeout in words is none":                                   {annotations: map[string]string{timeout: "soon"}},
		"a request by a clock that is ahead has its time, and no more": {annotations: map[string]string{timeout: "60", requested: ago(-time.Minute)}, wait: time.Minute},
		"a request of the far future is made again":                    {annotations: map[string]string{timeout: "60", requested: "9999-12-31T23:59:59Z"}, ask: true, wait: time.Minute},
		"a request at a time that is none is made again":               {annotations: map[string]string{timeout: "60", requested: "now"}, ask: true, wait: time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			if test.change != nil {
				test.change(pod)
			}
			ask, wait := Before([]Pod{{Pod: pod, Task: test.task}}, now)
			if (len(ask) == 1) != test.ask || wait != test.wait {
				t.Errorf("asks %d and waits %v, want %v and %v", len(ask), wait, test.ask, test.wait)
			}
		})
	}
}

func TestPodsAreStoppedTogetherWhenTheSlowestHasSavedItsWork(t *testing.T) {
	t.Parallel()
	pod := func(seconds string) Pod {
		return Pod{Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationCheckpointTimeout: seconds}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}}
	}
	if ask, wait := Before([]Pod{pod("5"), pod("30"), pod("10")}, now); len(ask) != 3 || wait != 30*time.Second {
		t.Errorf("asks %d and waits %v, want 3 and 30s", len(ask), wait)
	}
}

// A task's annotation is by any clock, that of a Pod by its node's.
func TestAPodLearnsWhenItsTaskHasSavedItsWork(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		for saved, confirmed := range map[time.Duration]bool{time.Second: true, time.Minute: true, time.Minute + time.Second: false, 30 * time.Minute: false} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationCheckpointRequested: ago(time.Minute)}}}
			seenByAClock(pod, ahead)
			task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationLastCheckpoint: now.Add(-saved).Format(time.RFC3339Nano)}}}
			maps.Copy(pod.Annotations, Confirm(pod, LastOf(task)).Annotations)
			one := Pod{Pod: pod}
			if at := one.Last(); !at.Equal(now.Add(-saved)) || IsRequested(pod) == confirmed {
				t.Errorf("on a node whose clock is %v ahead, work that was saved %v ago was saved at %v, and confirmed is %v", ahead, saved, at, !IsRequested(pod))
			}
		}
	}
}

func TestARequestIsForOnePodOnly(t *testing.T) {
	t.Parallel()
	patch, err := Request("uid", now).Bytes()
	if err != nil || !strings.Contains(string(patch), `"uid":"uid"`) || !strings.Contains(string(patch), "2026-11-21T12:00:00Z") {
		t.Errorf("the patch is %s (%v)", patch, err)
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationLastCheckpoint: ago(time.Minute)}}}
	pod.Status.StartTime = &metav1.Time{Time: now.Add(-time.Hour)}
	one := Pod{Pod: pod}
	if got := now.Sub(one.Since(now)); got != time.Minute {
		t.Errorf("the work of %v is lost, want that since the checkpoint", got)
	}
	pod.Annotations[v1.AnnotationLastCheckpoint] = ago(-time.Minute)
	if got := now.Sub(one.Since(now)); got != time.Hour {
		t.Errorf("with a checkpoint in the future, the work of %v is lost, want that of an hour", got)
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-time.Second))}}
	pod.Spec.Containers = []corev1.Container{{Name: "main"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: running, RestartCount: 1}}
	if got := now.Sub(one.Since(now)); got != time.Second {
		t.Errorf("the work of %v is lost, want that since the container started again", got)
	}
	if got := now.Sub(podfacts.FirstStarted(pod)); got != time.Hour {
		t.Errorf("it runs for %v, want an hour", got)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "sidecar"})
	pod.Status.ContainerStatuses[0].Name = "sidecar" // those of the others are not kept everywhere
	if got := now.Sub(one.Since(now)); got != time.Hour {
		t.Errorf("the work of %v is lost when a sidecar starts again, want that of an hour", got)
	}
}
