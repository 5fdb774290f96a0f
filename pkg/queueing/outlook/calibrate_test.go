// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
)

// estimated returns an estimate for a job that is to wait for some time.
func estimated(wait time.Duration) outlook.Estimate {
	return outlook.Estimate{Likely: now.Add(wait), Earliest: now.Add(wait), Latest: now.Add(wait)}
}

func TestCalibrationCorrectsEstimatesThatAreAlwaysTooEarly(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	var c outlook.Calibration
	inside, judged, useful := 0, 0, 0
	for i := range 3000 {
		wait := time.Duration(math.Exp(random.Float64()*7)) * time.Minute
		waited := time.Duration(3 * float64(wait) * math.Exp(0.3*random.NormFloat64()))
		e := c.Adjust(estimated(wait), 0, now)
		if e.Earliest.After(e.Likely) || e.Latest.Before(e.Likely) || e.Earliest.Before(now) {
			t.Fatalf("got %+v", e)
		}
		if at := now.Add(waited); i > 500 {
			judged++
			useful += count(at.Sub(e.Likely).Abs() < max(waited/4, 10*time.Minute))
			inside += count(!at.Before(e.Earliest) && !at.After(e.Latest))
		}
		c.Add(outlook.Outcome{Estimated: wait, Waited: waited})
	}
	if part := float64(inside) / float64(judged); part < 0.85 || part > 0.95 {
		t.Errorf("the intervals cover %.2f", part)
	}
	if part := float64(useful) / float64(judged); part < 0.6 {
		t.Errorf("%.2f start about when they were said to", part)
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// What is learned of short waits says nothing about long ones, nor what is learned at submission
// about those who have waited for long.
func TestOnlySimilarOutcomesCount(t *testing.T) {
	t.Parallel()
	var c outlook.Calibration
	add := func(after, wait time.Duration, ratio float64) {
		for range 100 {
			c.Add(outlook.Outcome{Age: outlook.Age(after), Estimated: wait, Waited: time.Duration(ratio * float64(wait))})
		}
	}
	add(0, time.Hour, 3)
	add(0, 20*time.Hour, 0.5)
	add(2*time.Hour, time.Hour, 2)
	add(7*time.Hour, time.Hour, 4)
	tests := map[string]struct{ waited, wait, want time.Duration }{
		"a short wait":                    {0, time.Hour, 3 * time.Hour},
		"a long wait":                     {time.Minute, 20 * time.Hour, 10 * time.Hour},
		"who has waited for a while":      {3 * time.Hour, time.Hour, 2 * time.Hour},
		"who has waited for long already": {8 * time.Hour, time.Hour, time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.Adjust(estimated(test.wait), test.waited, now).Likely.Sub(now); (got - test.want).Abs() > time.Second {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestIntervalsOfThoseWhoHaveWaitedForLongCoverHowItTurnedOut(t *testing.T) {
	t.Parallel()
	var c outlook.Calibration
	for range 100 {
		c.Add(outlook.Outcome{Age: outlook.Age(7 * time.Hour), Estimated: time.Hour, Waited: 4 * time.Hour})
	}
	if got := c.Adjust(estimated(time.Hour), 8*time.Hour, now).Latest.Sub(now); got < 3*time.Hour {
		t.Errorf("the latest start is in %v", got)
	}
}

func TestTheOldestOutcomesAreForgotten(t *testing.T) {
	t.Parallel()
	var c outlook.Calibration
	for i := range 2000 {
		waited := time.Hour
		if i >= 1000 {
			waited = 4 * time.Hour
		}
		c.Add(outlook.Outcome{Estimated: time.Hour, Waited: waited})
	}
	if got := c.Adjust(estimated(time.Hour), 0, now); got.Earliest.Sub(now) < 3*time.Hour {
		t.Errorf("got %+v, old outcomes count", got)
	}
}

func TestWithoutOutcomesNothingIsAdjusted(t *testing.T) {
	t.Parallel()
	var c outlook.Calibration
	for _, e := range []outlook.Estimate{{}, {Key: "a", Earliest: now, Likely: now.Add(time.Hour), Latest: now.Add(2 * time.Hour)}} {
		if got := c.Adjust(e, 0, now); got != e {
			t.Errorf("got %+v", got)
		}
	}
}
