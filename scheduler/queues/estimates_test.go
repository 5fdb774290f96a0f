// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
				known.forget(nil, test.held, func(one *writtenEstimate) { one.turnedOut(submitted.Add(3*time.Hour), turnedOut.add) })
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
	later, moved, booked, queued, assumed, rough := last, last, last, last, last, last
	assumed.AssumedRuntimeSeconds, rough.Rough = 4*3600, true
	later.Likely, moved.Position, booked.Reserved, queued.Queue = shown(beginning.Add(2*time.Hour)), 3, true, "vision"
	tests := map[string]struct {
		last, next v1.StartEstimate
		after      time.Duration
		isNews     bool
		wrong      bool
	}{
		"the same":        {last, last, time.Hour / 2, false, false},
		"it starts later": {last, later, rewritePeriod, true, false},
		"it starts later, as was said a moment ago":         {last, later, rewritePeriod - 1, false, false},
		"its position has moved":                            {last, moved, rewritePeriod, true, false},
		"it is in another queue":                            {last, queued, rewritePeriod, true, false},
		"it is in another queue since a moment":             {last, queued, rewritePeriod - 1, false, false},
		"places are booked for it since a moment":           {last, booked, 1, true, false},
		"places are no longer booked for it":                {booked, last, rewritePeriod, true, false},
		"places are no longer booked for it since a moment": {booked, last, rewritePeriod - 1, false, false},
		"a run time is assumed now":                         {last, assumed, rewritePeriod, true, false},
		"a run time is no longer assumed":                   {assumed, last, rewritePeriod, false, false},
		"it is rough now":                                   {last, rough, rewritePeriod, true, false},
		"what is shown contradicts others":                  {last, last, rewritePeriod, true, true},
		"what was written a moment ago contradicts others":  {last, last, rewritePeriod - 1, false, true},
		"it was withdrawn":                                  {v1.StartEstimate{}, last, rewritePeriod, true, false},
		"it was withdrawn a moment ago":                     {v1.StartEstimate{}, last, rewritePeriod - 1, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := estimates{written: map[string]writtenEstimate{"waits": {StartEstimate: test.last, at: beginning}}}
			if got := known.isNews("waits", &test.next, test.wrong, beginning.Add(test.after)); got != test.isNews {
				t.Errorf("news: %t, want %t", got, test.isNews)
			}
		})
	}
}

func TestEstimatesOfAQueueDoNotContradictEachOther(t *testing.T) {
	t.Parallel()
	estimate := func(queue string, earliest, likely, latest int, backfill bool) v1.StartEstimate {
		at := func(minutes int) metav1.Time { return shown(beginning.Add(time.Duration(minutes) * time.Minute)) }
		return v1.StartEstimate{Queue: queue, Earliest: at(earliest), Likely: at(likely), Latest: at(latest), Backfill: backfill}
	}
	first := estimate("vision", 10, 20, 40, false)
	tests := map[string]struct {
		next, want  v1.StartEstimate
		contradicts bool
	}{
		"later":                      {estimate("vision", 20, 30, 50, false), estimate("vision", 20, 30, 50, false), false},
		"by others a bit earlier":    {estimate("vision", 5, 18, 50, false), estimate("vision", 10, 20, 50, false), true},
		"in another queue":           {estimate("speech", 5, 18, 30, false), estimate("speech", 5, 18, 30, false), false},
		"it is expected to pass":     {estimate("vision", 5, 18, 30, true), estimate("vision", 5, 18, 30, true), false},
		"it passes, and is later":    {estimate("vision", 5, 25, 30, true), estimate("vision", 10, 25, 40, false), false},
		"it passes at the same time": {estimate("vision", 10, 20, 40, true), estimate("vision", 10, 20, 40, false), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := inQueues{}
			said.add(&first)
			said.add(nil)
			if got := said.contradicts(&test.next); got != test.contradicts {
				t.Errorf("it contradicts the one before it: %t", got)
			}
			if said.adjust(&test.next); test.next != test.want {
				t.Errorf("got %+v, want %+v", test.next, test.want)
			}
		})
	}
}

// TestAStartIsComparedWithTheFirstEstimate: later ones know more.
func TestAStartIsComparedWithTheFirstEstimate(t *testing.T) {
	t.Parallel()
	at := func(minutes int) metav1.Time { return shown(beginning.Add(time.Duration(minutes) * time.Minute)) }
	place := &Place{Waiting: gangs.Waiting{Key: "default/gang", Since: beginning}}
	first := v1.StartEstimate{Earliest: at(60), Likely: at(90), Latest: at(120)}
	next := v1.StartEstimate{Earliest: at(10), Likely: at(20), Latest: at(30)}
	tests := map[string]struct {
		minutes int
		silent  bool
		want    string
	}{
		"before":                       {50, false, "[early]"},
		"a moment before":              {59, false, "[within]"},
		"in between":                   {100, false, "[within]"},
		"after":                        {130, false, "[late]"},
		"as others were told since":    {25, false, "[early]"},
		"of one that was told nothing": {100, true, "[]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			core := &countingCore{}
			line, now := newLine(t, core), at(test.minutes).Time
			if !test.silent {
				line.estimates.wrote(place, &first, time.Hour, beginning)
				line.estimates.wrote(place, &next, time.Minute, beginning.Add(2*time.Minute))
			}
			one := line.estimates.written[place.Key]
			if line.started(&one, now); fmt.Sprint(core.starts) != test.want {
				t.Errorf("counted %v, want %s", core.starts, test.want)
			}
		})
	}
}

// countingCore remembers what is counted.
type countingCore struct {
	bareCore
	starts []string
}

func (c *countingCore) CountStart(result string) { c.starts = append(c.starts, result) }
