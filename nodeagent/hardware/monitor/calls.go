// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// connecting is the key of the calls of the Source that concern no single GPU: those that
// connect to the driver and disconnect from it.
const connecting = ""

// calls tracks the calls of the Source that are in flight, by the UUID of their GPU, at
// most one for each.
type calls struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	since map[string]time.Time
}

func newCalls(c clock.PassiveClock) *calls {
	return &calls{clock: c, since: map[string]time.Time{}}
}

// begin records a call; it returns false if the last one for the same GPU is still in
// flight.
func (c *calls) begin(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, found := c.since[key]; found {
		return false
	}
	c.since[key] = c.clock.Now()
	return true
}

// end records that a call has returned.
func (c *calls) end(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.since, key)
}

// inFlight returns how many of the calls with these keys are in flight.
func (c *calls) inFlight(keys []string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, key := range keys {
		if _, found := c.since[key]; found {
			count++
		}
	}
	return count
}

// idle reports whether no calls are in flight.
func (c *calls) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.since) == 0
}

// overdue returns the calls that have reached the deadline, and how long each has taken.
func (c *calls) overdue(deadline time.Duration) map[string]time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var overdue map[string]time.Duration // nil nearly always
	for key, since := range c.since {
		if took := c.clock.Since(since); took >= deadline {
			if overdue == nil {
				overdue = map[string]time.Duration{}
			}
			overdue[key] = took
		}
	}
	return overdue
}
