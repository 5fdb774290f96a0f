// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package pace measures how much of a machine's speed a test gets, so that its limits
// hold on a busy or slow machine as well. A thread does a little work again and again and
// compares the time that it took with the CPU time that it got: whoever has to share a
// core waits.
package pace

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// period is how often it is measured, and work how much CPU time that takes.
	period = 200 * time.Millisecond
	work   = 4 * time.Millisecond
)

// Clock is a clock that goes the slower the less of the machine a test gets. It never
// goes faster than the time.
type Clock struct {
	mu      sync.Mutex
	elapsed time.Duration // until last
	last    time.Time
	// share is the part of a core that the thread got when it was last measured.
	share float64
}

// Start starts a Clock, which goes until the process ends.
func Start() *Clock {
	c := &Clock{last: time.Now(), share: 1}
	go func() {
		runtime.LockOSThread() // CPU time is counted by thread
		for {
			c.measured(measure())
			time.Sleep(period)
		}
	}()
	return c
}

// Elapsed is the time since the Clock was started, as the test got it.
func (c *Clock) Elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed + time.Duration(float64(time.Since(c.last))*c.share)
}

func (c *Clock) measured(share float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.elapsed += time.Duration(float64(now.Sub(c.last)) * share)
	c.last, c.share = now, share
}

// measure works for a moment and returns the part of a core that it got.
func measure() float64 {
	begin, used := time.Now(), cpuTime()
	for cpuTime()-used < work {
		for range 10_000 {
			continue // to use the CPU is what it is for
		}
	}
	return min(1, float64(cpuTime()-used)/float64(time.Since(begin)))
}

// cpuTime is how long this thread has run on a core.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
