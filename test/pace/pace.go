// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package pace measures which share of a machine's speed a test gets, so that its time
// limits also hold on a busy or slow machine. A thread periodically does a little work and
// compares the elapsed time with the CPU time it got: on a shared core it has to wait.
package pace

import (
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	// period is the interval of measurements, and work the CPU time that each takes.
	period = 200 * time.Millisecond
	work   = 4 * time.Millisecond
)

// Clock is a clock that runs slower the less of the machine a test gets. It never runs
// faster than real time.
type Clock struct {
	mu      sync.Mutex
	elapsed time.Duration // until last
	last    time.Time
	// share is the part of a core that the thread got in the last measurement.
	share float64
}

// Start starts a Clock, which runs until the process ends.
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

// Elapsed returns the time since the Clock was started, by this clock.
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

// measure uses the CPU for a moment and returns the part of a core that it got.
func measure() float64 {
	begin, used := time.Now(), cpuTime()
	for cpuTime()-used < work {
		for range 10_000 {
			continue // just use the CPU
		}
	}
	return min(1, float64(cpuTime()-used)/float64(time.Since(begin)))
}

// cpuTime returns the CPU time that this thread has used.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
