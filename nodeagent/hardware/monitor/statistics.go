// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"sync"
	"time"
)

// Statistics is what the Monitor has done so far.
type Statistics struct {
	// Polls worked, FailedPolls found no driver or lost it.
	Polls, FailedPolls uint64
	// FailedReads are polls of a single GPU.
	FailedReads uint64
	// TotalDuration is how long the polls took that worked.
	TotalDuration time.Duration
	// Hanging is how long the oldest call has been under way that has missed its
	// deadline; 0 if none has.
	Hanging time.Duration
}

type statistics struct {
	mu     sync.Mutex
	values Statistics
}

func (s *statistics) change(change func(*Statistics)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.values)
}

func (s *statistics) succeeded(took time.Duration) {
	s.change(func(v *Statistics) { v.Polls++; v.TotalDuration += took })
}

func (s *statistics) failed()     { s.change(func(v *Statistics) { v.FailedPolls++ }) }
func (s *statistics) readFailed() { s.change(func(v *Statistics) { v.FailedReads++ }) }

// Statistics returns what the Monitor has done so far.
func (m *Monitor) Statistics() Statistics {
	m.statistics.mu.Lock()
	defer m.statistics.mu.Unlock()
	values := m.statistics.values
	for _, took := range m.calls.overdue(m.config.Deadline) {
		values.Hanging = max(values.Hanging, took)
	}
	return values
}
