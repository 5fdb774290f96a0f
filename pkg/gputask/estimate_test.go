// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"testing"
	"time"

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
			"11th in its queue; expected to start at 14:10 UTC",
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
