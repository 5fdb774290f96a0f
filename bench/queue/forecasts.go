// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/arrivals"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
)

// forecasts are the start estimates that a system gives, and how they turned out.
type forecasts struct {
	// every is of how many waiting jobs one gets an estimate; 0 is none.
	every int
	asked int
	// replayed is true if jobs are expected to come as they came on one of the last days.
	replayed    bool
	calibration outlook.Calibration
	recent      []*job // submitted in the last days
	judged      []*job
	// waiting are jobs that have an estimate and have not waited for long.
	waiting []*job
}

const (
	draws = 15
	day   = 24 * time.Hour
	// long is after how much waiting a job gets a second estimate.
	long = 6 * time.Hour
)

// atSubmission gives a job an estimate if it waits.
func (f *forecasts) atSubmission(s *system, j *job) {
	if f.every == 0 {
		return
	}
	f.recent = append(f.recent, j)
	for len(f.recent) > 0 && f.recent[0].Submitted.Before(s.now.Add(-arrivals.Days*day)) {
		f.recent = f.recent[1:]
	}
	f.giveSecond(s)
	if !j.started.IsZero() {
		return
	}
	if f.asked++; f.asked%f.every == 0 {
		j.expected = f.estimate(s, j)
		f.waiting = append(f.waiting, j)
	}
}

// giveSecond gives jobs that have waited for long another estimate.
func (f *forecasts) giveSecond(s *system) {
	for len(f.waiting) > 0 && !s.now.Before(f.waiting[0].Submitted.Add(long)) {
		if j := f.waiting[0]; j.started.IsZero() {
			j.expectedLate = f.estimate(s, j)
		}
		f.waiting = f.waiting[1:]
	}
}

// started records how an estimate turned out.
func (f *forecasts) started(j *job) {
	if j.expected.at.IsZero() {
		return
	}
	if j.measured {
		f.judged = append(f.judged, j)
	}
	f.learn(j, &j.expected)
	f.learn(j, &j.expectedLate)
}

func (f *forecasts) learn(j *job, given *forecast) {
	if !given.likely.IsZero() {
		f.calibration.Add(outlook.Outcome{
			Age: outlook.Age(given.at.Sub(j.Submitted)), Estimated: given.raw.Sub(given.at), Waited: j.started.Sub(given.at),
		})
	}
}

// estimate estimates when a job starts.
func (f *forecasts) estimate(s *system, j *job) forecast {
	in := s.outlook(j)
	if f.replayed {
		in.Scenarios = f.scenarios(s)
	}
	at := slices.IndexFunc(in.Waiting, func(w outlook.Waiting) bool { return w.Key == j.key })
	raw := outlook.Estimates(in)[at]
	e := f.calibration.Adjust(raw, s.now.Sub(j.Submitted), s.now)
	return forecast{at: s.now, raw: raw.Likely, earliest: e.Earliest, likely: e.Likely, latest: e.Latest}
}

// outlook describes the present.
func (s *system) outlook(only *job) *outlook.Input {
	in := &outlook.Input{Now: s.now, Booked: s.reserved, Draws: draws, Seed: uint64(only.ID), Only: only.key} //nolint:gosec // a line's number
	index := make(map[string]int, s.nodes)
	for i := range s.nodes {
		index[nodeName(i)] = i
		in.Nodes = append(in.Nodes, outlook.Node{Model: "gpu", Percent: cardsPerNode * placement.Card})
	}
	for _, j := range s.running {
		elapsed := s.now.Sub(j.started)
		one := outlook.Running{Key: j.key, Duration: outlook.Duration{
			Draw:  func(random *rand.Rand) time.Duration { return j.estimate.Draw(random, elapsed) - elapsed },
			Bound: j.estimate.Planned(elapsed) - elapsed,
		}}
		if j.estimate.Unknown() {
			one.Duration = outlook.Duration{}
		}
		for _, m := range j.places {
			one.Holds = append(one.Holds, outlook.Hold{Node: index[m.Node], Percent: len(m.GPUs) * placement.Card})
		}
		in.Running = append(in.Running, one)
	}
	slices.SortFunc(in.Running, func(a, b outlook.Running) int { return s.running[a.Key].ID - s.running[b.Key].ID })
	for _, j := range s.line.jobs {
		in.Waiting = append(in.Waiting, j.outlook())
	}
	return in
}

func (j *job) outlook() outlook.Waiting {
	w := outlook.Waiting{Key: j.key, Turn: j.turn, Needs: []outlook.Need{{Members: j.members, Percent: j.request.GPUs * placement.Card}}}
	if !j.estimate.Unknown() {
		w.Draw = func(random *rand.Rand) time.Duration { return j.estimate.Draw(random, 0) }
		w.Bound = j.bound()
	}
	return w
}

// scenarios returns what came in the 24 hours after the same time of the last days.
func (f *forecasts) scenarios(s *system) [][]outlook.Coming {
	var list [][]outlook.Coming
	for back := 1; back <= arrivals.Days; back++ {
		later := time.Duration(back) * day
		from := sort.Search(len(f.recent), func(i int) bool { return f.recent[i].Submitted.Add(later).After(s.now) })
		var coming []outlook.Coming
		for _, j := range f.recent[from:] {
			after := j.Submitted.Add(later).Sub(s.now)
			if after > day {
				break
			}
			w := j.outlook()
			w.Key += " again"
			w.Turn = s.turnOf(j) + later.Seconds()
			coming = append(coming, outlook.Coming{After: after, Waiting: w})
		}
		if len(coming) > 0 {
			list = append(list, coming)
		}
	}
	return list
}

// accuracy is how estimates turned out. All but the numbers of jobs are fractions, or hours.
type accuracy struct {
	jobs, within, late, covered, medianError, medianWait float64
	longJobs, longWithin                                 float64
}

// near is the error that counts as right: this part of the wait, or this time.
const (
	nearPart = 0.25
	nearTime = 10 * time.Minute
)

func (f *forecast) right(started time.Time) bool {
	wait := started.Sub(f.at)
	return !f.likely.IsZero() && f.likely.Sub(started).Abs() <= max(time.Duration(nearPart*float64(wait)), nearTime)
}

func (f *forecasts) accuracy() accuracy {
	var a accuracy
	var misses, waited []float64
	for _, j := range f.judged {
		e := &j.expected
		wait := j.started.Sub(e.at)
		a.jobs++
		a.within += one(e.right(j.started))
		a.late += one(e.likely.IsZero() || wait > 2*e.likely.Sub(e.at)+nearTime)
		a.covered += one(!e.likely.IsZero() && !j.started.Before(e.earliest) && !j.started.After(e.latest))
		miss := math.Inf(1)
		if !e.likely.IsZero() {
			miss = e.likely.Sub(j.started).Abs().Hours()
		}
		misses, waited = append(misses, miss), append(waited, wait.Hours())
		if !j.expectedLate.at.IsZero() {
			a.longJobs++
			a.longWithin += one(j.expectedLate.right(j.started))
		}
	}
	a.within, a.late, a.covered = a.within/max(a.jobs, 1), a.late/max(a.jobs, 1), a.covered/max(a.jobs, 1)
	a.longWithin /= max(a.longJobs, 1)
	slices.Sort(misses)
	slices.Sort(waited)
	a.medianError, a.medianWait = quantile(misses, .5), quantile(waited, .5)
	return a
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
