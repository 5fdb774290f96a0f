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
	now := time.Date(2026, 11, 23, 13, 0, 0, 0, time.UTC)
	at := func(hour, minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 23, hour, minute, 0, 0, time.UTC))
	}
	tests := map[string]struct {
		estimate v1.StartEstimate
		want     string
	}{
		"with everything that is known": {
			v1.StartEstimate{Earliest: at(14, 10), Likely: at(14, 20), Latest: at(14, 40), Queue: "vision", Position: 3, Behind: "train-7 (8 GPUs)"},
			"3rd in queue vision; expected to start between 14:10 and 14:40 UTC, when train-7 (8 GPUs) ends",
		},
		"in no queue": {
			v1.StartEstimate{Earliest: at(14, 10), Likely: at(14, 10), Latest: at(14, 10), Position: 11},
			"11th in line; expected to start at 14:10 UTC",
		},
		"on another day": {
			v1.StartEstimate{Earliest: at(23, 0), Likely: at(23, 30), Latest: at(26, 0), Queue: "vision", Position: 22},
			"22nd in queue vision; expected to start between 23:00 and 2026-11-24 02:00 UTC",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := estimateText(&test.estimate, now); got != test.want {
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
