// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"math"
	"slices"
	"time"
)

const (
	// mostOutcomes is how many outcomes are remembered for each range of waits.
	mostOutcomes = 60
	// covered is the part of the last outcomes that intervals cover. It is more than the 80 % that
	// they are to cover: what comes differs from what was.
	covered = 0.92
	// shortest is added to all waits, so that ratios of short ones make sense.
	shortest = 5 * time.Minute
	// ranges is the number of ranges of estimated waits that are told apart: each is four
	// times as long as the one before.
	ranges = 6
)

// Calibration widens intervals to what outcomes showed to be needed: few draws of a
// simulation know nothing of jobs that have yet to come. It remembers the ratio of the actual
// to the estimated wait for the last jobs, by how long the estimated wait was. It is not safe
// for concurrent use; the zero value has seen no outcomes.
type Calibration struct {
	ratios [ranges][]float64
}

// Outcome records how long a job was estimated to wait, by Estimate.Likely before it was
// adjusted, and how long it did wait from then on.
func (c *Calibration) Outcome(estimated, waited time.Duration) {
	list := &c.ratios[rangeOf(estimated)]
	if len(*list) == mostOutcomes {
		*list = slices.Delete(*list, 0, 1)
	}
	*list = append(*list, float64(waited+shortest)/float64(estimated+shortest))
}

// Adjust returns the estimate with a likely start that would have been right on average for
// the last outcomes (their median), and an interval that would have covered 92 % of them.
func (c *Calibration) Adjust(e Estimate, now time.Time) Estimate {
	if e.Likely.IsZero() {
		return e
	}
	likely := e.Likely.Sub(now)
	ratios := slices.Sorted(slices.Values(c.ratios[rangeOf(likely)]))
	if len(ratios) < 10 {
		return e
	}
	at := func(part float64) time.Time {
		ratio := ratios[min(int(part*float64(len(ratios))), len(ratios)-1)]
		return now.Add(max(time.Duration(ratio*float64(likely+shortest))-shortest, 0))
	}
	e.Earliest, e.Likely, e.Latest = at((1-covered)/2), at(0.5), at((1+covered)/2)
	return e
}

// rangeOf returns the range of a wait: up to 15 minutes, an hour, 4 hours, ….
func rangeOf(wait time.Duration) int {
	quarters := float64(wait) / float64(15*time.Minute)
	if quarters <= 1 {
		return 0
	}
	return min(1+int(math.Log2(quarters)/2), ranges-1)
}
