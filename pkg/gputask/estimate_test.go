// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

func TestWhenATaskIsExpectedToStart(t *testing.T) {
	t.Parallel()
	at := func(hour, minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 23, hour, minute, 0, 0, time.UTC).In(time.FixedZone("New York", -5*3600)))
	}
	between := v1.StartEstimate{Earliest: at(14, 10), Likely: at(14, 20), Latest: at(26, 40)}
	with := func(change func(*v1.StartEstimate)) v1.StartEstimate {
		estimate := between
		change(&estimate)
		return estimate
	}
	const interval = "between 2026-11-23T14:10:00Z and 2026-11-24T02:40:00Z"
	tests := map[string]struct {
		estimate v1.StartEstimate
		want     string
	}{
		"in a queue, after work that runs": {
			with(func(e *v1.StartEstimate) { e.Queue, e.Position, e.Behind = "vision", 3, "train-7 (8 GPUs)" }),
			"3rd in queue vision; expected to start " + interval + ", after train-7 (8 GPUs) ends",
		},
		"in no queue": {
			v1.StartEstimate{Earliest: at(14, 10), Likely: at(14, 10), Latest: at(14, 10), Position: 11},
			"11th in line; expected to start at 2026-11-23T14:10:00Z",
		},
		"of few jobs": {with(func(e *v1.StartEstimate) { e.Rough = true }), "expected to start roughly " + interval},
		"of an assumed run time": {
			with(func(e *v1.StartEstimate) { e.AssumedRuntimeSeconds, e.AssumedFor = 4*3600, "gang (24 GPUs)" }),
			"expected to start " + interval + "; no run time is known for gang (24 GPUs): 4 h assumed",
		},
		"of the assumed run time of work that is not named": {
			with(func(e *v1.StartEstimate) { e.AssumedRuntimeSeconds = 5400 }),
			"expected to start " + interval + "; no run time is known for work before it: 90 min assumed",
		},
		"before others": {
			with(func(e *v1.StartEstimate) { e.Position, e.Backfill, e.Behind = 22, true, "eval (1 GPU)" }),
			"22nd in line; expected to start before some of those ahead of it, " + interval + ", after eval (1 GPU) ends",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := estimateText(&test.estimate); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAnEstimateFitsIntoTheStatus(t *testing.T) {
	t.Parallel()
	const times = `"earliest":"2026-11-23T14:10:00Z","likely":"2026-11-23T14:20:00Z","latest":"2026-11-23T14:40:00Z"`
	long := strings.Repeat("é", 300)
	tests := map[string]struct {
		text   string
		known  bool
		behind string
	}{
		"as the scheduler writes it":       {`{` + times + `,"queue":"vision","position":3,"behind":"train-7 (8 GPUs)"}`, true, "train-7 (8 GPUs)"},
		"behind work with a long name":     {`{` + times + `,"behind":"` + long + `"}`, true, strings.Repeat("é", 252) + "…"},
		"no annotation":                    {"", false, ""},
		"no JSON":                          {"soon", false, ""},
		"without times":                    {`{}`, false, ""},
		"with a time that has no year":     {`{` + strings.Replace(times, "2026-11-23T14:40:00Z", "9999-12-31T23:59:59-10:00", 1) + `}`, false, ""},
		"in a queue that can't be a queue": {`{` + times + `,"queue":"` + long + `"}`, false, ""},
		"with a run time below 0":          {`{` + times + `,"assumedRuntimeSeconds":-1}`, false, ""},
		"of a later version":               {`{` + times + `,"behind":"train-7 (8 GPUs)","sure":true}`, true, "train-7 (8 GPUs)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := StartEstimateOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.AnnotationStartEstimate: test.text}}})
			if (got != nil) != test.known || got != nil && got.Behind != test.behind {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestWhatDoesNotWaitItsTurnIsNotExpectedToStart has a Pod with an estimate that its scheduler has not withdrawn yet.
func TestWhatDoesNotWaitItsTurnIsNotExpectedToStart(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1.AnnotationStartEstimate, `{"earliest":"2026-11-23T14:10:00Z","likely":"2026-11-23T14:10:00Z","latest":"2026-11-23T14:10:00Z"}`)
	for reason, want := range map[v1.TaskReason]bool{"": true, v1.TaskQueued: true, v1.TaskStarting: true, v1.TaskBlocked: false, v1.TaskNeverFits: false} {
		d := &decision{reason: reason, status: &v1.GPUTaskStatus{}, members: []*member{{pod: pod, state: podPending}}}
		if d.reportEstimate(); (d.status.EstimatedStart != nil) != want {
			t.Errorf("%q: expected to start: %t, want %t", reason, !want, want)
		}
	}
}
