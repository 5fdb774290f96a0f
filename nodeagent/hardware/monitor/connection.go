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
	// firstRetry and lastRetry bound how long to wait before the driver is
	// looked for again.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// connection keeps the connection to the driver, which Poll opens and closes and
// Watch uses.
type connection struct {
	source gpu.Source
	clock  clock.Clock
	calls  *calls

	// Poll's own.
	found    *found
	openedAt time.Time
	retryAt  time.Time
	delay    time.Duration
	problem  error
	// worked is true once there was a connection.
	worked bool

	mu sync.Mutex // guards what follows
	// live ends when the connection is to be closed; nil while there is none.
	live context.Context //nolint:containedctx // it is the connection's life, which Watch must not outlast
	end  context.CancelFunc
	// watching counts who uses the connection beside Poll.
	watching sync.WaitGroup
	opened   chan struct{}
}

// found is what the driver has found when it was connected to.
type found struct {
	inventory gpu.Inventory
	// groups are the NVLink groups of the GPUs.
	groups []int
}

// open returns what the driver has found. After a failure it waits for longer
// each time before it looks again, and returns the last error in between.
func (c *connection) open() (*found, error) {
	if c.isOpen() {
		return c.found, nil
	}
	if c.clock.Now().Before(c.retryAt) {
		return nil, c.problem
	}
	inventory, err := c.connect()
	now := c.clock.Now() // it may have taken its time
	if c.problem = err; err != nil {
		c.delay = min(max(firstRetry, 2*c.delay), lastRetry)
		c.retryAt = now.Add(c.delay)
		return nil, err
	}
	c.found = &found{inventory, inventory.NVLinkGroups()}
	c.delay, c.openedAt, c.worked = 0, now, true
	c.announce()
	return c.found, nil
}

func (c *connection) connect() (gpu.Inventory, error) {
	c.calls.begin(connecting)
	defer c.calls.end(connecting)
	return c.source.Open()
}

// age is how long the connection has been open.
func (c *connection) age() time.Duration { return c.clock.Since(c.openedAt) }

func (c *connection) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live != nil
}

// announce lets Watch begin.
func (c *connection) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.end = context.WithCancel(context.Background())
	close(c.waiting())
	c.opened = nil
}

// waiting is closed when the next connection is open.
func (c *connection) waiting() chan struct{} {
	if c.opened == nil {
		c.opened = make(chan struct{})
	}
	return c.opened
}

// close disconnects, after those that use the connection have let go of it. No
// call but Watch may use it any more.
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

// use waits for a connection and returns a context that ends with it. done must
// be called afterwards. The result is false if ctx has ended.
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
		opened := c.waiting()
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil, false
		case <-opened:
		}
	}
}
