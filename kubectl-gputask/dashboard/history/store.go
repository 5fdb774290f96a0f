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
)

// Store keeps samples. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	samples []rows.Sample
}

// NewStore returns a Store without samples.
func NewStore() *Store { return &Store{} }

// Add adds a sample, which is later than those before.
func (s *Store) Add(sample rows.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, sample)
	if surplus := len(s.samples) - maxSamples; surplus > 0 {
		s.samples = slices.Delete(s.samples, 0, surplus)
	}
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
func thin(samples []rows.Sample) []rows.Sample {
	step := (len(samples) + maxPoints - 1) / maxPoints
	thinned := []rows.Sample{}
	for i := range samples {
		if step <= 1 || (len(samples)-1-i)%step == 0 {
			thinned = append(thinned, samples[i])
		}
	}
	return thinned
}
