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

func TestCalibratedIntervalsCoverNineTenths(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	var c outlook.Calibration
	inside, judged, before := 0, 0, 0
	for i := range 3000 {
		estimated := time.Duration(math.Exp(random.Float64()*7)) * time.Minute
		waited := time.Duration(3 * float64(estimated) * math.Exp(random.NormFloat64())) // all estimates are too early
		e := c.Adjust(outlook.Estimate{Likely: now.Add(estimated), Earliest: now.Add(estimated), Latest: now.Add(estimated)}, now)
		if e.Earliest.After(e.Likely) || e.Latest.Before(e.Likely) {
			t.Fatalf("got %+v", e)
		}
		if i > 500 {
			judged++
			if at := now.Add(waited); at.Before(e.Likely) {
				before++
			}
			if at := now.Add(waited); !at.Before(e.Earliest) && !at.After(e.Latest) {
				inside++
			}
		}
		c.Outcome(estimated, waited)
	}
	if part := float64(inside) / float64(judged); part < 0.87 || part > 0.96 {
		t.Errorf("the intervals cover %.2f", part)
	}
	if part := float64(before) / float64(judged); part < 0.45 || part > 0.55 {
		t.Errorf("%.2f start before what was likely", part)
	}
}

func TestWithoutOutcomesNothingIsAdjusted(t *testing.T) {
	t.Parallel()
	var c outlook.Calibration
	for _, e := range []outlook.Estimate{{}, {Key: "a", Earliest: now, Likely: now.Add(time.Hour), Latest: now.Add(2 * time.Hour)}} {
		if got := c.Adjust(e, now); got != e {
			t.Errorf("got %+v", got)
		}
	}
}
