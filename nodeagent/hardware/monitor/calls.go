// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// connecting stands for the calls of the Source that concern no single GPU:
// those that connect to the driver and disconnect from it.
const connecting = ""

// calls are the calls of the Source that have not returned yet, by the UUID of
// their GPU. There is at most one about each.
type calls struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	since map[string]time.Time
}

func newCalls(c clock.PassiveClock) *calls {
	return &calls{clock: c, since: map[string]time.Time{}}
}

// begin notes a call; it returns false if the last one about the same GPU has
// not returned.
func (c *calls) begin(about string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, under := c.since[about]; under {
		return false
	}
	c.since[about] = c.clock.Now()
	return true
}

// end notes that a call has returned.
func (c *calls) end(about string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.since, about)
}

// under returns how many of some calls have not returned.
func (c *calls) under(abouts []string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, about := range abouts {
		if _, under := c.since[about]; under {
			count++
		}
	}
	return count
}

// idle reports whether all calls have returned.
func (c *calls) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.since) == 0
}

// overdue returns the calls that have taken as long as the deadline, and how long
// each has.
func (c *calls) overdue(deadline time.Duration) map[string]time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	var overdue map[string]time.Duration // nil nearly always
	for about, since := range c.since {
		if took := c.clock.Since(since); took >= deadline {
			if overdue == nil {
				overdue = map[string]time.Duration{}
			}
			overdue[about] = took
		}
	}
	return overdue
}
