// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leadership tracks, at any moment, whether this process may act as the leader.
// client-go's leader election only tells a process that it became the leader: one that hangs and then
// resumes would act alongside its successor for a moment.
package leadership

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// Guard follows the lease of this process through the lock that renews it. It is safe
// for concurrent use.
type Guard struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// until is when the term ends; unlimited is true if it never does.
	until     time.Time
	unlimited bool
	// transitions is the lease's count of leaders when this process became the leader.
	transitions int
	// acquired is closed when the lease is held for the first time.
	acquired chan struct{}
	// superseded is closed when the lease is held again after another process has held it.
	superseded chan struct{}
}

// NewGuard returns a Guard that does not lead yet.
func NewGuard(clock clock.PassiveClock) *Guard {
	return &Guard{clock: clock, acquired: make(chan struct{}), superseded: make(chan struct{})}
}

// Always returns a Guard of a process that is known to be the only one.
func Always() *Guard {
	g := NewGuard(clock.RealClock{})
	g.unlimited = true
	close(g.acquired)
	return g
}

// Acquired returns a channel that is closed once this process has become the leader.
func (g *Guard) Acquired() <-chan struct{} { return g.acquired }

// Leads reports whether this process is the leader at this moment: no other process can
// have been before the call.
func (g *Guard) Leads() bool {
	now := g.clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	// Round strips the monotonic clock, which stands still while a virtual machine
	// is paused; the wall clock may be set back. Either may end the term.
	return g.unlimited || now.Before(g.until) && now.Round(0).Before(g.until.Round(0))
}

// held records that the lease was acquired or renewed.
func (g *Guard) held(transitions int, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case isClosed(g.superseded):
	case !isClosed(g.acquired):
		g.transitions, g.until = transitions, until
		close(g.acquired)
	case transitions != g.transitions:
		g.until = time.Time{}
		close(g.superseded)
	default:
		g.until = until
	}
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func (g *Guard) lost() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.until = time.Time{}
}

// Watch wraps the lock of the lease so that the Guard records each renewal. The term is
// how long the lease counts as held after the start of the request that acquired or
// renewed it: the renew deadline, which is shorter than the time that others wait before
// they take the lease over.
func (g *Guard) Watch(lock resourcelock.Interface, term time.Duration) resourcelock.Interface {
	return &watchedLock{Interface: lock, guard: g, term: term}
}

type watchedLock struct {
	resourcelock.Interface
	guard *Guard
	term  time.Duration
}

// Create implements resourcelock.Interface.
func (l *watchedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements resourcelock.Interface.
func (l *watchedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *watchedLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	begin, ours := l.guard.clock.Now(), record.HolderIdentity == l.Identity()
	switch {
	case !ours:
		l.guard.lost() // it is being released, whether or not the request succeeds
	case isClosed(l.guard.superseded):
		return ErrSuperseded // an elector must not hold the lease for a process that may not act
	}
	err := write(ctx, record)
	if err == nil && ours {
		l.guard.held(record.LeaderTransitions, begin.Add(l.term))
	}
	return err
}
