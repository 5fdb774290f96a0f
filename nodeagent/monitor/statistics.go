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
	// LastDuration is how long the last poll took that worked, TotalDuration all
	// of them.
	LastDuration, TotalDuration time.Duration
	// Hanging is how long the call under way has been hanging; 0 if none is.
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
	s.change(func(v *Statistics) {
		v.Polls++
		v.LastDuration, v.Hanging = took, 0
		v.TotalDuration += took
	})
}

func (s *statistics) failed()     { s.change(func(v *Statistics) { v.FailedPolls++; v.Hanging = 0 }) }
func (s *statistics) readFailed() { s.change(func(v *Statistics) { v.FailedReads++ }) }

func (s *statistics) hung(since time.Duration) { s.change(func(v *Statistics) { v.Hanging = since }) }

// Statistics returns what the Monitor has done so far.
func (m *Monitor) Statistics() Statistics {
	m.statistics.mu.Lock()
	defer m.statistics.mu.Unlock()
	return m.statistics.values
}
