// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import "sync"

// Statistics counts a Publisher's writes.
type Statistics struct {
	mu             sync.Mutex
	writes, errors uint64
}

func (s *Statistics) wrote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
}

func (s *Statistics) failed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors++
}

// Counts returns how many writes succeeded and how many failed.
func (s *Statistics) Counts() (writes, errors uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes, s.errors
}

// Statistics returns the counters of the Publisher's writes.
func (p *Publisher) Statistics() *Statistics { return &p.statistics }
