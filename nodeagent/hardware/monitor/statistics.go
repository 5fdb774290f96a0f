// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"sync"
	"time"
)

// Statistics counts what the Monitor has done.
type Statistics struct {
	// Polls counts successful polls, FailedPolls those without a driver.
	Polls, FailedPolls uint64
	// FailedReads counts failed polls of a single GPU.
	FailedReads uint64
	// FailedProcesses counts failed attempts to read the processes on a GPU.
	FailedProcesses uint64
	// TotalDuration is how long the successful polls took.
	TotalDuration time.Duration
	// Hanging is how long the oldest call that has exceeded its deadline has been in
	// flight; 0 if there is none.
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

func (s *statistics) failed()          { s.change(func(v *Statistics) { v.FailedPolls++ }) }
func (s *statistics) readFailed()      { s.change(func(v *Statistics) { v.FailedReads++ }) }
func (s *statistics) processesFailed() { s.change(func(v *Statistics) { v.FailedProcesses++ }) }

// Statistics returns the statistics so far.
func (m *Monitor) Statistics() Statistics {
	m.statistics.mu.Lock()
	defer m.statistics.mu.Unlock()
	values := m.statistics.values
	for _, took := range m.calls.overdue(m.config.Deadline) {
		values.Hanging = max(values.Hanging, took)
	}
	return values
}
