// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import "sync"

// streams counts the kubelet's open ListAndWatch streams by the registration that they
// followed. Only those of the latest one show that the kubelet uses the plugin: it keeps
// reading older ones, but up to 1.36 it may have dropped the plugin all the same.
type streams struct {
	// changed receives a value when a stream begins or ends.
	changed chan struct{}
	// stopping is closed to end all streams.
	stopping chan struct{}
	stopOnce sync.Once

	mu     sync.Mutex
	latest int
	open   map[int]int
	begun  bool // a stream of the latest registration has begun
}

func newStreams() *streams {
	return &streams{changed: make(chan struct{}, 1), stopping: make(chan struct{}), open: map[int]int{}}
}

// startRegistration makes streams count for a new registration from now on.
func (s *streams) startRegistration() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latest++
	s.begun = false
}

func (s *streams) begin() (registration int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[s.latest]++
	s.begun = true
	s.notify()
	return s.latest
}

func (s *streams) end(registration int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[registration]--
	if s.open[registration] == 0 {
		delete(s.open, registration)
	}
	s.notify()
}

func (s *streams) notify() {
	select {
	case s.changed <- struct{}{}:
	default: // a notification is pending already
	}
}

// state reports whether a stream of the latest registration has begun, and whether
// one is open.
func (s *streams) state() (begun, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun, s.open[s.latest] > 0
}

func (s *streams) stop() { s.stopOnce.Do(func() { close(s.stopping) }) }
