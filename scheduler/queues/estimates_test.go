// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"testing"
	"time"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

func TestEstimatesAreCorrectedByTheWaitsOfThoseThatStarted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		held map[string]int
		want time.Duration
	}{
		"they started after three times as long": {map[string]int{"default/gang": 800}, 3 * time.Hour},
		"they were deleted":                      {nil, time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known, turnedOut := &estimates{written: map[string]writtenEstimate{}}, outcomes{}
			for i := range 30 {
				submitted := beginning.Add(time.Duration(i) * 24 * time.Hour)
				place := &Place{Waiting: gangs.Waiting{Key: "default/gang", Since: submitted}}
				known.wrote(place, &v1.StartEstimate{Position: 1}, time.Hour, submitted)
				known.wrote(place, &v1.StartEstimate{Position: 2}, time.Minute, submitted.Add(2*time.Minute)) // of the same age
				known.forget(nil, test.held, submitted.Add(3*time.Hour), turnedOut.add)
			}
			estimate := outlook.Estimate{Likely: beginning.Add(time.Hour)}
			if got := turnedOut.adjust(estimate, 0, beginning).Likely.Sub(beginning); (got - test.want).Abs() > time.Second {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if len(known.written) > 0 {
				t.Errorf("%v are remembered although nothing waits", fmt.Sprint(known.written))
			}
		})
	}
}

func TestAnEstimateIsWrittenAgainWhenItIsNews(t *testing.T) {
	t.Parallel()
	last := v1.StartEstimate{Likely: shown(beginning.Add(time.Hour)), Position: 10}
	later, moved, booked, queued := last, last, last, last
	later.Likely, moved.Position, booked.Reserved, queued.Queue = shown(beginning.Add(2*time.Hour)), 3, true, "vision"
	tests := map[string]struct {
		last, next v1.StartEstimate
		after      time.Duration
		isNews     bool
	}{
		"the same":        {last, last, time.Hour / 2, false},
		"it starts later": {last, later, rewritePeriod, true},
		"it starts later, as was said a moment ago":         {last, later, rewritePeriod - 1, false},
		"its position has moved":                            {last, moved, rewritePeriod, true},
		"it is in another queue":                            {last, queued, rewritePeriod, true},
		"it is in another queue since a moment":             {last, queued, rewritePeriod - 1, false},
		"places are booked for it since a moment":           {last, booked, 1, true},
		"places are no longer booked for it":                {booked, last, rewritePeriod, true},
		"places are no longer booked for it since a moment": {booked, last, rewritePeriod - 1, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := estimates{written: map[string]writtenEstimate{"waits": {StartEstimate: test.last, at: beginning}}}
			if got := known.isNews("waits", &test.next, beginning.Add(test.after)); got != test.isNews {
				t.Errorf("news: %t, want %t", got, test.isNews)
			}
		})
	}
}
