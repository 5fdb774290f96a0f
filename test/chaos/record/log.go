// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record writes down what happens in a cluster: every revision from etcd's own watch,
// every write from the API server's audit log, and every end of a process.
package record

import (
	"sync"
	"time"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// Log is a history that is being recorded. It is safe for concurrent use.
type Log struct {
	now     func() time.Time
	elapsed func() time.Duration

	mu    sync.Mutex
	sinks []func(*history.Entry)
	// revision is the last one that was recorded.
	revision int64
}

// NewLog returns a Log. now is the time of day; elapsed runs slower on a busy machine. Each
// entry is given to all sinks, in the same order.
func NewLog(now func() time.Time, elapsed func() time.Duration, sinks ...func(*history.Entry)) *Log {
	return &Log{now: now, elapsed: elapsed, sinks: sinks}
}

// Append records an entry, whose times it sets.
func (l *Log) Append(entry history.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry.At, entry.Elapsed = l.now(), l.elapsed()
	if entry.Object != nil {
		l.revision = entry.Object.Revision
	}
	for _, sink := range l.sinks {
		sink(&entry)
	}
}

// Mark records a stage of the campaign.
func (l *Log) Mark(mark history.Mark) { l.Append(history.Entry{Mark: mark}) }

// Revision returns the last revision that was recorded.
func (l *Log) Revision() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision
}
