// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const (
	// firstRetry and lastRetry bound the backoff between attempts to connect.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// connection keeps the connection to the driver, which Poll opens and closes and
// Watch uses.
type connection struct {
	source gpu.Source
	clock  clock.Clock
	calls  *calls

	// Used by Poll only.
	found    *discovery
	openedAt time.Time
	retryAt  time.Time
	delay    time.Duration
	problem  error
	// connected is true once there has been a connection.
	connected bool

	mu sync.Mutex // guards what follows
	// live is canceled when the connection is closed; nil while there is none.
	live context.Context //nolint:containedctx // the connection's lifetime, which Watch must not exceed
	end  context.CancelFunc
	// watching counts the users of the connection other than Poll.
	watching sync.WaitGroup
	opened   chan struct{}
}

// discovery is what was found when the connection was opened.
type discovery struct {
	inventory gpu.Inventory
	// groups are the NVLink groups of the GPUs.
	groups []int
}

// open connects if necessary and returns what was found. After a failure it tries again
// only after an increasing backoff, and returns the last error in between.
func (c *connection) open() (*discovery, error) {
	if c.isOpen() {
		return c.found, nil
	}
	if c.clock.Now().Before(c.retryAt) {
		return nil, c.problem
	}
	inventory, err := c.connect()
	now := c.clock.Now() // connecting may take long
	if c.problem = err; err != nil {
		c.delay = min(max(firstRetry, 2*c.delay), lastRetry)
		c.retryAt = now.Add(c.delay)
		return nil, err
	}
	c.found = &discovery{inventory, inventory.NVLinkGroups()}
	c.delay, c.openedAt, c.connected = 0, now, true
	c.markOpen()
	return c.found, nil
}

func (c *connection) connect() (gpu.Inventory, error) {
	c.calls.begin(connecting)
	defer c.calls.end(connecting)
	return c.source.Open()
}

// age returns how long the connection has been open.
func (c *connection) age() time.Duration { return c.clock.Since(c.openedAt) }

func (c *connection) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live != nil
}

// markOpen makes the connection available to Watch.
func (c *connection) markOpen() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.end = context.WithCancel(context.Background())
	close(c.nextOpen())
	c.opened = nil
}

// nextOpen returns a channel that is closed when the next connection is open.
func (c *connection) nextOpen() chan struct{} {
	if c.opened == nil {
		c.opened = make(chan struct{})
	}
	return c.opened
}

// forgetFailures lets the next attempt to connect be made at once.
func (c *connection) forgetFailures() { c.delay, c.retryAt = 0, time.Time{} }

// close disconnects once the other users of the connection are done. No call other than
// Watch may be in flight.
func (c *connection) close(ctx context.Context) {
	c.mu.Lock()
	if c.live == nil {
		c.mu.Unlock()
		return
	}
	c.end()
	c.live = nil
	c.mu.Unlock()
	c.calls.begin(connecting)
	defer c.calls.end(connecting)
	c.watching.Wait()
	if err := c.source.Close(); err != nil {
		klog.FromContext(ctx).Error(err, "Disconnecting from the GPU driver failed")
	}
}

// use waits for a connection and returns a context that is canceled when it is closed. The
// caller must call done. ok is false if ctx has ended.
func (c *connection) use(ctx context.Context) (live context.Context, done func(), ok bool) {
	for {
		c.mu.Lock()
		if c.live != nil {
			both, cancel := context.WithCancel(ctx)
			stop := context.AfterFunc(c.live, cancel)
			c.watching.Add(1)
			c.mu.Unlock()
			return both, func() { stop(); cancel(); c.watching.Done() }, true
		}
		opened := c.nextOpen()
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil, false
		case <-opened:
		}
	}
}
