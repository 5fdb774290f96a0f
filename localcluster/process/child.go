// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// child is one supervised process across all its restarts.
type child struct {
	spec   Spec
	group  *Group
	clock  clock.Clock
	onExit func(Exit)

	stopping chan struct{} // closed when the process is to stop
	stopOnce sync.Once
	stopped  chan struct{} // closed when it has stopped for good

	exits atomic.Int64

	mu            sync.Mutex
	command       *exec.Cmd // nil between two runs
	restartReason string    // set if restart killed the process
}

func newChild(spec Spec, group *Group, clock clock.Clock, onExit func(Exit)) *child {
	return &child{
		spec: spec, group: group, clock: clock, onExit: onExit,
		stopping: make(chan struct{}), stopped: make(chan struct{}),
	}
}

// start starts the process.
func (c *child) start() error {
	log, err := os.OpenFile(c.spec.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the caller chose it
	if err != nil {
		return fmt.Errorf("starting %s: %w", c.spec.Name, err)
	}
	defer func() { _ = log.Close() }() // the process has its own copy

	command := exec.Command(c.spec.Path, c.spec.Args...) //nolint:gosec,noctx // the caller chose it, and stop ends it
	command.Env = append(os.Environ(), c.spec.Env...)
	command.Stdout, command.Stderr = log, log
	c.group.Adopt(command)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", c.spec.Name, err)
	}
	c.command = command
	return nil
}

// supervise restarts the process whenever it ends, until stop.
func (c *child) supervise(ctx context.Context) {
	defer close(c.stopped)
	var delay time.Duration
	startedAt := c.clock.Now()
	end := c.wait()
	for !c.isStopping() {
		exit := Exit{Name: c.spec.Name, Reason: end.reason}
		if !end.requested {
			delay = nextDelay(delay, c.clock.Since(startedAt))
			exit.Delay = delay
			c.exits.Add(1)
		}
		c.onExit(exit)
		if !c.pause(exit.Delay) {
			return
		}
		if c.spec.BeforeRestart != nil {
			c.spec.BeforeRestart(ctx)
		}
		startedAt = c.clock.Now()
		end = c.runAgain()
	}
}

// ending is how one run of the process ended.
type ending struct {
	reason    string
	requested bool // by restart
}

// runAgain runs the process once more, after its first run.
func (c *child) runAgain() ending {
	if c.isStopping() {
		return ending{}
	}
	if err := c.start(); err != nil {
		return ending{reason: err.Error()}
	}
	if c.isStopping() { // stop may have signalled before the process was started
		c.kill()
	}
	return c.wait()
}

func (c *child) wait() ending {
	c.mu.Lock()
	command := c.command
	c.mu.Unlock()
	end := ending{reason: "exit status 0"}
	if err := command.Wait(); err != nil {
		end.reason = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.command = nil
	if c.restartReason != "" {
		end = ending{reason: c.restartReason, requested: true}
		c.restartReason = ""
	}
	return end
}

// pause waits for the delay, and returns false if the process is to stop.
func (c *child) pause(delay time.Duration) bool {
	if delay == 0 {
		return true
	}
	select {
	case <-c.clock.After(delay):
		return true
	case <-c.stopping:
		return false
	}
}

func (c *child) stop(limit time.Duration) {
	c.stopOnce.Do(func() { close(c.stopping) })
	c.signal(syscall.SIGTERM)
	select {
	case <-c.stopped:
		return
	case <-c.clock.After(limit):
	}
	c.kill()
	<-c.stopped
}

func (c *child) restart(reason string) {
	c.mu.Lock()
	running := c.command != nil
	if running {
		c.restartReason = reason
	}
	c.mu.Unlock()
	if running {
		c.kill()
	}
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }

func (c *child) signal(signal syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.command != nil {
		// Only a process that changed its user could refuse the signal; the
		// janitor could not kill it either, so there is nothing to be done.
		_ = c.command.Process.Signal(signal)
	}
}

func (c *child) isStopping() bool {
	select {
	case <-c.stopping:
		return true
	default:
		return false
	}
}

func (c *child) pid() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.command == nil {
		return 0, ErrNotRunning
	}
	return c.command.Process.Pid, nil
}
