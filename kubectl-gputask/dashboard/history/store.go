// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package history is how the GPUs of a cluster were used over time: from Prometheus, or else as far as the page's
// server has seen it itself.
package history

import (
	"slices"
	"sync"
	"time"

	"falldio.github.io/gpu-controller/kubectl-gputask/dashboard/rows"
)

const (
	// maxSamples is a week of samples, one each 15 seconds.
	maxSamples = 7 * 24 * 60 * 4
	// maxPoints is how many samples are returned of any period: more than a screen has room for.
	maxPoints = 600
	// splitPeriod is how often the parts are kept at most: they take far more room than a sample.
	splitPeriod = time.Minute
	maxSplits   = 7 * 24 * 60
)

// Split is how many GPUs whose Pods had at one time, in one of the dimensions.
type Split struct {
	Time  time.Time
	Parts []rows.Part
}

// moment is the parts in all dimensions.
type moment struct {
	time  time.Time
	parts rows.Parts
}

// Store keeps samples. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	samples []rows.Sample
	moments []moment
	last    rows.Parts
	starts  starts
	// began is the time of the first moment.
	began time.Time
}

// NewStore returns a Store without samples.
func NewStore() *Store { return &Store{} }

// Add adds a moment, which is later than those before.
func (s *Store) Add(added *rows.Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := added.Sample.Time.Time
	if s.began.IsZero() {
		s.began = at
	}
	s.samples = appended(s.samples, added.Sample, maxSamples)
	if s.last = added.Parts; len(s.moments) == 0 || at.Sub(s.moments[len(s.moments)-1].time) >= splitPeriod {
		s.moments = appended(s.moments, moment{at, added.Parts}, maxSplits)
	}
	s.starts.add(added.Starts)
}

// appended appends to a list that keeps the last ones, at most some.
func appended[T any](list []T, item T, most int) []T {
	list = append(list, item)
	return slices.Delete(list, 0, max(0, len(list)-most))
}

// Splits returns the parts in a dimension after a time; of many, only each second, third … one.
func (s *Store) Splits(dimension string, begin time.Time) []Split {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _ := slices.BinarySearchFunc(s.moments, begin, func(one moment, at time.Time) int { return one.time.Compare(at) })
	splits := []Split{}
	for _, one := range thin(s.moments[first:]) {
		splits = append(splits, Split{one.time, one.parts.By(dimension)})
	}
	return splits
}

// Now returns the last parts in a dimension.
func (s *Store) Now(dimension string) []rows.Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.By(dimension)
}

// Starts returns the starts after a time, and since when all that were seen are known.
func (s *Store) Starts(begin time.Time) (after []rows.Start, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since = s.starts.forgotten; since.Before(s.began) {
		since = s.began
	}
	return s.starts.after(begin), since
}

// Last returns the last samples, at most some.
func (s *Store) Last(most int) []rows.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.samples[max(0, len(s.samples)-most):])
}

// Since returns the samples after a time; of many, only each second, third … one.
func (s *Store) Since(begin time.Time) []rows.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _ := slices.BinarySearchFunc(s.samples, begin, func(sample rows.Sample, at time.Time) int { return sample.Time.Compare(at) })
	return thin(s.samples[first:])
}

// thin leaves at most maxPoints samples, the last one among them.
func thin[T any](samples []T) []T {
	step := (len(samples) + maxPoints - 1) / maxPoints
	thinned := []T{}
	for i := range samples {
		if step <= 1 || (len(samples)-1-i)%step == 0 {
			thinned = append(thinned, samples[i])
		}
	}
	return thinned
}
