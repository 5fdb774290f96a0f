// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"falldio.github.io/gpu-controller/localcluster/stages"
)

func TestIsOverdue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	pending := func(bound time.Duration) *corev1.Pod {
		return &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-bound))},
		}}}
	}
	running := func(finishAt string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{stages.AnnotationFinishAt: finishAt}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	deleted := running("")
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	tests := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a Pod that was just bound":                   {pending(time.Second), false},
		"a Pod that was bound and does not start":     {pending(3 * time.Second), true},
		"a Pod that runs and has time":                {running("2026-11-21T12:00:01.5Z"), false},
		"a Pod that has just come to its end":         {running("2026-11-21T11:59:59Z"), false},
		"a Pod that should have ended":                {running("2026-11-21T11:59:57.5Z"), true},
		"a Pod that runs forever":                     {running(""), false},
		"a Pod that has ended":                        {&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, false},
		"a Pod that is being deleted and still there": {deleted, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := isOverdue(tc.pod, now); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
