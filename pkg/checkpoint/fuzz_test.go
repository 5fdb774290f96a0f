// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package checkpoint_test

import (
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/checkpoint"
)

// FuzzAnnotations puts any text into the annotations of a Pod that is to be stopped, and of its
// task. However wrong they are, the wait is bounded, a Pod that was asked is not asked again at
// once, and it may be stopped when its time is up.
func FuzzAnnotations(f *testing.F) {
	f.Add("60", "2026-11-21T11:59:50Z", "2026-11-21T11:59:55Z", "", int64(0))
	f.Add("3600", "", "", "2026-11-21T11:00:00+01:00", int64(30*time.Second))
	f.Add("-1", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z", "tomorrow", int64(time.Hour))
	f.Add("2147483647", "2026-11-21T12:00:00.999999999Z", "2026-11-21T12:00:00Z", "2026-11-21T12:00:00Z", int64(-1))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, timeout, requested, last, task string, notice int64) {
		const longestNotice = 24 * time.Hour
		one := checkpoint.Pod{
			Pod: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{UID: "uid", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Annotations: map[string]string{
					v1.AnnotationCheckpointTimeout: timeout, v1.AnnotationCheckpointRequested: requested, v1.AnnotationLastCheckpoint: last,
				}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning},
			},
			Task: map[string]string{v1.AnnotationLastCheckpoint: task}, Notice: time.Duration(notice) % longestNotice,
		}
		if since := one.Since(now); since.After(now) || since.Before(now.Add(-time.Hour)) {
			t.Errorf("the work that is lost began at %v", since)
		}
		longest := max(checkpoint.Timeout(one.Pod), one.Notice, 0)
		if longest > max(checkpoint.MaxTimeoutSeconds*time.Second, one.Notice) {
			t.Errorf("a Pod may take %v", longest)
		}
		ask, wait := checkpoint.Before([]checkpoint.Pod{one}, now)
		if wait < 0 || wait > longest {
			t.Fatalf("the wait is %v, at most %v are possible", wait, longest)
		}
		if len(ask) == 0 {
			return
		}
		one.Pod = one.DeepCopy()
		maps.Copy(one.Annotations, checkpoint.Request(one.UID, now).Metadata.Annotations)
		if again, _ := checkpoint.Before([]checkpoint.Pod{one}, now.Add(time.Second)); len(again) > 0 {
			t.Error("it is asked again a second later")
		}
		if _, wait := checkpoint.Before([]checkpoint.Pod{one}, now.Add(longest+time.Second)); wait != 0 {
			t.Errorf("%v are to be waited after its time was up", wait)
		}
	})
}
