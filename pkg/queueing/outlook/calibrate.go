// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"math"
	"slices"
	"time"
)

const (
	// mostOutcomes is how many outcomes are remembered for each age.
	mostOutcomes = 1000
	// similar is how many outcomes an estimate is corrected by: those whose estimated waits were
	// the most like its own. There have to be at least fewestOutcomes.
	similar        = 150
	fewestOutcomes = 20
	// covered is the part of the similar outcomes that intervals cover. It is more than the 80 %
	// that they are to cover: what comes differs from what was.
	covered = 0.9
	// shortest is added to all waits, so that ratios of short ones make sense.
	shortest = 5 * time.Minute
	// An estimate is worth something if it is not further off than this part of the wait, or
	// this time.
	usefulPart = 0.3
	usefulTime = 12 * time.Minute
)

// late is after how much waiting the likely start is not corrected any more.
const late = 6 * time.Hour

// ages are the times after which an estimate is another kind of estimate: the longer a job has
// waited, the more it takes to pass it, and the likelier it is that something is wrong with
// what is known of those before it.
func ages() []time.Duration { return []time.Duration{0, time.Hour, late} }

// Age returns a number for how long a job has waited; estimates of one age are corrected by the
// outcomes of the same.
func Age(waited time.Duration) int {
	list := ages()
	age := 0
	for age+1 < len(list) && waited >= list[age+1] {
		age++
	}
	return age
}

// Outcome is how an estimate turned out.
type Outcome struct {
	// Age is the Age of the job when the estimate was given.
	Age int
	// Estimated is for how long it was to wait from then on, by Estimate.Likely before it was
	// adjusted, and Waited how long it did.
	Estimated, Waited time.Duration
}

// Calibration corrects estimates by how similar ones turned out: a simulation knows little of
// what has yet to come. It is not safe for concurrent use; the zero value has seen no outcomes.
type Calibration struct {
	// outcomes are the last ones of each age.
	outcomes map[int]*outcomes
}

// outcomes are outcomes in the order of their estimates.
type outcomes struct {
	sorted []numbered
	count  int
}

type numbered struct {
	Outcome
	number int
}

// Add records an outcome.
func (c *Calibration) Add(o Outcome) {
	if c.outcomes == nil {
		c.outcomes = map[int]*outcomes{}
	}
	of := c.outcomes[o.Age]
	if of == nil {
		of = &outcomes{}
		c.outcomes[o.Age] = of
	}
	if len(of.sorted) == mostOutcomes {
		oldest := of.count - mostOutcomes
		of.sorted = slices.DeleteFunc(of.sorted, func(n numbered) bool { return n.number == oldest })
	}
	at := of.after(o.Estimated)
	of.sorted = slices.Insert(of.sorted, at, numbered{Outcome: o, number: of.count})
	of.count++
}

// after returns the index of the first outcome whose estimate was longer.
func (o *outcomes) after(estimated time.Duration) int {
	at, _ := slices.BinarySearchFunc(o.sorted, estimated, func(n numbered, target time.Duration) int {
		if n.Estimated <= target {
			return -1
		}
		return 1
	})
	return at
}

// Adjust returns the estimate for a job that has waited for some time, with the likely start
// that would have been useful the most often for similar estimates, and an interval that would
// have covered 90 % of them. Estimates remain as they are until there are enough outcomes. How
// those turned out who had waited for six hours is known long after: by then the cluster is
// another one, so that this tells the interval, but not the likely start.
func (c *Calibration) Adjust(e Estimate, waited time.Duration, now time.Time) Estimate {
	of := c.outcomes[Age(waited)]
	if e.Likely.IsZero() || of == nil || len(of.sorted) < fewestOutcomes {
		return e
	}
	waits := of.scaled(e.Likely.Sub(now))
	e.Earliest = now.Add(quantileOf(waits, (1-covered)/2))
	e.Latest = now.Add(quantileOf(waits, (1+covered)/2))
	if waited < late {
		e.Likely = now.Add(mostUseful(waits))
	}
	if e.Earliest.After(e.Likely) {
		e.Earliest = e.Likely
	}
	if e.Latest.Before(e.Likely) {
		e.Latest = e.Likely
	}
	return e
}

// scaled returns for how long the jobs with the most similar estimates waited, each as if its
// estimate had been the given one; sorted.
func (o *outcomes) scaled(estimated time.Duration) []time.Duration {
	target := float64(max(estimated, 0) + shortest)
	high := o.after(estimated)
	low := high
	for high-low < similar && (low > 0 || high < len(o.sorted)) {
		if high == len(o.sorted) || low > 0 && target/o.sorted[low-1].estimated() <= o.sorted[high].estimated()/target {
			low--
		} else {
			high++
		}
	}
	waits := make([]time.Duration, 0, high-low)
	for i := low; i < high; i++ {
		ratio := float64(o.sorted[i].Waited+shortest) / o.sorted[i].estimated()
		waits = append(waits, max(time.Duration(ratio*target)-shortest, 0))
	}
	slices.Sort(waits)
	return waits
}

// estimated returns what ratios are made with.
func (n *numbered) estimated() float64 { return float64(n.Estimated + shortest) }

// quantileOf returns a quantile of sorted times.
func quantileOf(sorted []time.Duration, quantile float64) time.Duration {
	return sorted[min(int(quantile*float64(len(sorted))), len(sorted)-1)]
}

// mostUseful returns the wait that is the nearest to the most of the given ones. That is their
// mode, smoothed by a parabola as wide as an estimate may be off (Epanechnikov's kernel).
func mostUseful(waits []time.Duration) (best time.Duration) {
	most := -1.0
	for _, wait := range waits {
		if sum := usefulness(wait, waits); sum > most {
			best, most = wait, sum
		}
	}
	return best
}

func usefulness(estimated time.Duration, waits []time.Duration) (sum float64) {
	for _, wait := range waits {
		off := (estimated - wait).Seconds() / max(usefulPart*wait.Seconds(), usefulTime.Seconds())
		sum += math.Max(0, 1-off*off)
	}
	return sum
}
