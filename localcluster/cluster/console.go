// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// console prints progress for users. Write errors are ignored.
type console struct {
	mu    sync.Mutex
	out   io.Writer
	clock clock.PassiveClock
	start time.Time
}

func newConsole(out io.Writer, clock clock.PassiveClock) *console {
	return &console{out: out, clock: clock, start: clock.Now()}
}

// done reports a step with the time since the start.
func (c *console) done(format string, args ...any) {
	c.printf("✓ %-28s %5.1fs\n", fmt.Sprintf(format, args...), c.clock.Since(c.start).Seconds())
}

// trouble reports something unexpected.
func (c *console) trouble(format string, args ...any) {
	c.printf("! "+format+"\n", args...)
}

func (c *console) printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.out, format, args...)
}
