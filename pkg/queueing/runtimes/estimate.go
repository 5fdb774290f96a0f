// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"math/rand/v2"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// The parts of jobs that Likely and Bound are not exceeded by.
const (
	likely = 0.5
	bound  = 0.9
)

// DefaultOverrun is the least by which the bound of a job that exceeds it is extended.
const DefaultOverrun = 10 * time.Minute

// Estimate is how long a job runs: a distribution. The zero value knows nothing.
type Estimate struct {
	// numbers are durations in seconds ÷ scale.
	numbers *Histogram
	scale   float64
	limit   time.Duration
	// level is that of the group whose numbers these are.
	level int
}

// fewestAlike is how many jobs of one namespace, with the same name, size or limit, have to be known for an estimate
// that is not rough. Of fewer than 29, the longest is below the true bound with more than 5 %: 0.9^29 is 0.047.
const fewestAlike = 30

// Rough reports whether the estimate was learned from few jobs, or from jobs that are not alike. What is only a limit
// was not learned.
func (e Estimate) Rough() bool {
	return e.numbers != nil && (e.level > levelOfSize || e.numbers.Total < fewestAlike)
}

// Unknown reports whether nothing is known.
func (e Estimate) Unknown() bool { return e.numbers == nil && e.limit == 0 }

// Outlived reports whether a job has no limit and has run longer than all others that it is estimated from, so that
// these say no more about when it ends.
func (e Estimate) Outlived(elapsed time.Duration) bool {
	if e.numbers == nil || e.limit > 0 {
		return false
	}
	_, ok := e.numbers.quantile(bound, elapsed.Seconds()/e.scale)
	return !ok
}

// Runtime returns the estimate for a job that has not started.
func (e Estimate) Runtime() queueing.Runtime {
	return queueing.Runtime{
		Limit: e.limit, Likely: e.Quantile(likely, 0), Bound: e.Quantile(bound, 0), Predicted: e.limit == 0 && !e.Unknown(),
	}
}

// Quantile returns the whole duration that a part of the jobs does not exceed which have run
// for some time already. A job that has outlived all others ends at its limit; if it has
// none or is past it, see Extended. It is 0 if nothing is known.
func (e Estimate) Quantile(part float64, elapsed time.Duration) time.Duration {
	if e.numbers != nil {
		if number, ok := e.numbers.quantile(part, elapsed.Seconds()/e.scale); ok {
			return e.within(seconds(number*e.scale), elapsed)
		}
	}
	return e.outlived(elapsed)
}

// Draw returns a random duration of a job that has run for some time already.
func (e Estimate) Draw(random *rand.Rand, elapsed time.Duration) time.Duration {
	if e.numbers != nil {
		if number, ok := e.numbers.draw(random, elapsed.Seconds()/e.scale); ok {
			return e.within(seconds(number*e.scale), elapsed)
		}
	}
	return e.outlived(elapsed)
}

// Exactly returns the estimate for a job whose duration is known.
func Exactly(duration time.Duration) Estimate { return Estimate{limit: duration} }

// Planned returns the duration to plan with for a job that has run for some time: its bound
// and, once that is exceeded, the bound of those jobs that ran as long, at least
// DefaultOverrun more, then twice that, and so on. It changes in steps, so that who waits for
// the job is not put off a little all the time. It is 0 if nothing is known.
func (e Estimate) Planned(elapsed time.Duration) time.Duration {
	planned := e.Quantile(bound, 0)
	for step := DefaultOverrun; planned > 0 && planned <= elapsed; step *= 2 {
		planned = max(e.Quantile(bound, planned), planned+step)
	}
	return planned
}

// Remaining returns for how much longer a job runs that has run for some time: the median
// and the bound.
func (e Estimate) Remaining(elapsed time.Duration) (median, longest time.Duration) {
	if e.Unknown() {
		return 0, 0
	}
	return e.Quantile(likely, elapsed) - elapsed, e.Quantile(bound, elapsed) - elapsed
}

// within caps a duration at the limit, unless the job is past it.
func (e Estimate) within(duration, elapsed time.Duration) time.Duration {
	if e.limit > 0 && elapsed < e.limit {
		duration = min(duration, e.limit)
	}
	return max(duration, elapsed+time.Second)
}

// outlived returns the duration of a job that has outlived the distribution.
func (e Estimate) outlived(elapsed time.Duration) time.Duration {
	switch {
	case e.limit > 0:
		return Extended(e.limit, elapsed, DefaultOverrun)
	case e.numbers != nil:
		return Extended(seconds(e.numbers.value(float64(len(e.numbers.Counts)))*e.scale), elapsed, DefaultOverrun)
	default:
		return 0
	}
}

// Extended returns the duration to plan with for a job that was bounded by a duration and has
// run for some time. While it is within the bound, that is the bound. Afterwards it is the
// bound plus an extension, which doubles from a least one whenever it was too short: an end
// that is always expected now would keep everybody waiting who waits for it.
func Extended(bound, elapsed, least time.Duration) time.Duration {
	extended := bound
	for step := max(least, time.Second); extended <= elapsed; step *= 2 {
		extended += step
	}
	return extended
}

func seconds(number float64) time.Duration { return time.Duration(number * float64(time.Second)) }
