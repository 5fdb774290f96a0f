// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// lineOf expects one gang "a" at once.
func lineOf(size int, reportsRunning bool) *timeline {
	return newTimeline(start, []*gang{newGang("a", size, "1")}, []time.Duration{0}, reportsRunning)
}

// happen passes an event of a Pod of the gang "a" to a timeline, at a time in seconds.
func happen(t *timeline, at float64, kind watch.EventType, index int, node string, phase corev1.PodPhase) {
	t.handlePod(watch.Event{Type: kind, Object: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("a-%d", index), Labels: map[string]string{v1.LabelTask: "a"}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: phase},
	}}, start.Add(time.Duration(at*float64(time.Second))))
}

func isDone(t *timeline) bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func TestATimelineEndsWhenAllPodsRun(t *testing.T) {
	t.Parallel()
	line := lineOf(2, false)
	for index := range 2 {
		happen(line, 0.1, watch.Added, index, "", corev1.PodPending)
		happen(line, 0.2+0.5*float64(index), watch.Modified, index, "n", corev1.PodPending)
		happen(line, 0.8, watch.Modified, index, "n", corev1.PodPending)
	}
	happen(line, 1, watch.Modified, 0, "n", corev1.PodRunning)
	if isDone(line) {
		t.Fatal("it is done too early")
	}
	happen(line, 1.5, watch.Modified, 1, "n", corev1.PodRunning)
	happen(line, 1.6, watch.Modified, 1, "n", corev1.PodRunning)
	if !isDone(line) || <-line.complete != 0 {
		t.Fatal("it is not done")
	}
	want := outcome{
		Seconds: 1.5, Latencies: []float64{1.5}, BindLatencies: []float64{0.7}, Pauses: []float64{0.5}, LongestSpread: 0.5,
		Stages: map[string][2]float64{"created": {0.1, 0.1}, "bound": {0.45, 0.7}, "running": {1.25, 1.5}},
	}
	if diff := cmp.Diff(want, line.outcome(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}

func TestATimelineWaitsForGPUTasksToReportRunning(t *testing.T) {
	t.Parallel()
	line := lineOf(1, true)
	update := func(name string, phase v1.GPUTaskPhase, at time.Duration) {
		task := &v1.GPUTask{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.GPUTaskStatus{Phase: phase}}
		line.handleTask(watch.Event{Type: watch.Modified, Object: task}, start.Add(at))
	}
	happen(line, 1, watch.Modified, 0, "n", corev1.PodRunning)
	update("a", v1.PhasePending, time.Second)
	update("b", v1.PhaseRunning, time.Second)
	if isDone(line) {
		t.Fatal("it is done too early")
	}
	update("a", v1.PhaseRunning, 2*time.Second)
	update("a", v1.PhaseRunning, 3*time.Second)
	if o := line.outcome(); !isDone(line) || o.Seconds != 1 || o.Told != 2 {
		t.Errorf("outcome %+v", o)
	}
}

func TestAGangIsPartialAfterAPauseThatNoBindingExplains(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		binds   []float64
		slowest float64
		want    int
	}{
		"not before its first Pod is bound":       {nil, 0.1, 0},
		"not when all are bound soon":             {[]float64{0, 0.9, 1.8}, 0.1, 0},
		"when its second Pod is bound much later": {[]float64{0, 1.2, 1.3}, 0.1, 1},
		"not when bindings are that slow":         {[]float64{0, 1.2, 1.3}, 0.4, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			line := lineOf(3, false)
			for index, at := range test.binds {
				happen(line, at, watch.Modified, index, "n", corev1.PodPending)
			}
			r := record{outcome: line.outcome(), usage: usage{SlowestBinding: test.slowest}}
			if got := r.partial(); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestOtherPodsDoNotCountAndDeletedOnesAreLost(t *testing.T) {
	t.Parallel()
	line := newTimeline(start, []*gang{newGang("b", 1, "1")}, []time.Duration{0}, false)
	happen(line, 1, watch.Modified, 0, "n", corev1.PodRunning)
	if running, all, _ := line.progress(); running != 0 || all != 1 {
		t.Errorf("%d of %d run", running, all)
	}
	line = lineOf(1, false)
	happen(line, 2, watch.Deleted, 0, "n", corev1.PodRunning)
	if o := line.outcome(); o.Lost != 1 {
		t.Errorf("outcome %+v", o)
	}
}
