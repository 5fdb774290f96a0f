// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// happen tells a timeline what happens to the Pods of the gang "a", by second.
func happen(t *timeline, at float64, kind watch.EventType, index int, node string, phase corev1.PodPhase) {
	t.see(watch.Event{Type: kind, Object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-%d", index), Labels: map[string]string{v1.LabelTask: "a"}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase},
	}}, start.Add(time.Duration(at*float64(time.Second))))
}

func TestATimelineEndsWhenAllPodsRun(t *testing.T) {
	t.Parallel()
	line := newTimeline()
	line.expect("a", 2, start)
	for index := range 2 {
		happen(line, 0.1, watch.Added, index, "", corev1.PodPending)
		happen(line, 0.2+0.5*float64(index), watch.Modified, index, "n", corev1.PodPending)
		happen(line, 0.8, watch.Modified, index, "n", corev1.PodPending)
	}
	happen(line, 1, watch.Modified, 0, "n", corev1.PodRunning)
	select {
	case <-line.done:
		t.Fatal("it is done too early")
	default:
	}
	happen(line, 1.5, watch.Modified, 1, "n", corev1.PodRunning)
	happen(line, 1.6, watch.Modified, 1, "n", corev1.PodRunning)
	<-line.done
	o := line.outcome()
	if o.Latencies[0] != 1.5 || o.BindLatencies[0] != 0.7 || o.Partial != 0 || o.LongestPause != 0.5 {
		t.Errorf("outcome %+v", o)
	}
}

func TestAGangIsPartial(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		binds []float64
		want  bool
	}{
		"not before its first Pod is bound":       {nil, false},
		"when its second Pod is never bound":      {[]float64{0}, true},
		"not when both are bound soon":            {[]float64{0, 0.9}, false},
		"when its second Pod is bound much later": {[]float64{0, 1.1}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := newTimeline()
			line.expect("a", 2, start)
			for index, at := range test.binds {
				happen(line, at, watch.Modified, index, "n", corev1.PodPending)
			}
			if got := line.outcome().Partial == 1; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestOtherPodsDoNotCountAndDeletedOnesAreLost(t *testing.T) {
	t.Parallel()
	line := newTimeline()
	line.expect("b", 1, start)
	happen(line, 1, watch.Modified, 0, "n", corev1.PodRunning)
	if running, all, _ := line.progress(); running != 0 || all != 1 {
		t.Errorf("%d of %d run", running, all)
	}
	line.expect("a", 1, start)
	happen(line, 2, watch.Deleted, 0, "n", corev1.PodRunning)
	if o := line.outcome(); o.Lost != 1 {
		t.Errorf("outcome %+v", o)
	}
}
