// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// State is whether the daemon runs.
type State int

// The states. A daemon that has never been seen is Stopped.
const (
	NotConfigured State = iota
	Stopped
	Running
)

// Status is the result of the last probe.
type Status struct {
	State State
	// Since is when the daemon was first found in this state; zero before the first probe.
	Since time.Time
	// Problem is why a daemon counts as stopped.
	Problem error
}

// interval is how often the daemon is probed. A probe takes microseconds, and until the next
// one, containers may be made clients of a daemon that has ended.
const interval = 2 * time.Second

// Watcher probes the daemon in the background, so that whoever asks for its state need not
// wait.
type Watcher struct {
	directory string
	clock     clock.Clock

	mu     sync.Mutex
	status Status
}

// NewWatcher returns a Watcher for the daemon in a directory; an empty one stands for no
// daemon.
func NewWatcher(directory string, c clock.Clock) *Watcher {
	w := &Watcher{directory: directory, clock: c}
	if directory != "" {
		w.status.State = Stopped
	}
	return w
}

// Status returns the result of the last probe.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// Running reports whether the last probe found the daemon.
func (w *Watcher) Running() bool { return w.Status().State == Running }

// Check probes the daemon now.
func (w *Watcher) Check(ctx context.Context) {
	if w.directory == "" {
		return
	}
	state, problem := Running, probe(ctx, w.directory)
	if problem != nil {
		state = Stopped
	}
	if ctx.Err() != nil {
		return // the probe was not carried out
	}
	if w.update(Status{State: state, Since: w.clock.Now(), Problem: problem}) {
		w.report(ctx, problem)
	}
}

// update takes over the result of a probe. It returns whether the state has changed, or is the
// first one.
func (w *Watcher) update(now Status) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed := w.status.Since.IsZero() || w.status.State != now.State
	if !changed {
		now.Since = w.status.Since
	}
	w.status = now
	return changed
}

func (w *Watcher) report(ctx context.Context, problem error) {
	logger := klog.FromContext(ctx).WithValues("directory", w.directory)
	if problem == nil {
		logger.Info("The MPS control daemon runs: containers with a share of a GPU become its clients")
		return
	}
	logger.Error(problem, "The MPS control daemon does not run: shares of GPUs are given out without limits")
}

// Run probes the daemon until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	if w.directory == "" {
		return
	}
	for pause(ctx, w.clock, interval) {
		w.Check(ctx)
	}
}

// pause returns false if ctx ends first.
func pause(ctx context.Context, c clock.Clock, duration time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.After(duration):
		return true
	}
}
