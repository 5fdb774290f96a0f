// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Spec describes a process that runs for as long as the cluster does.
type Spec struct {
	// Name identifies the process within the supervisor.
	Name string
	Path string
	Args []string
	// Env is added to this process's environment.
	Env []string
	// LogPath is a file that the process's output is appended to.
	LogPath string
	// BeforeRestart runs before each start but the first. Optional.
	BeforeRestart func(context.Context)
}

// Exit describes the exit of a process that will be restarted.
type Exit struct {
	Name string
	// Reason is the operating system's, for example "signal: killed", or that
	// given to Restart.
	Reason string
	// Delay is how long the supervisor waits before it restarts the process; 0
	// after Restart.
	Delay time.Duration
}

// Supervisor keeps processes running.
type Supervisor struct {
	group  *Group
	clock  clock.Clock
	onExit func(Exit)

	mu       sync.Mutex
	children map[string]*child
}

// NewSupervisor returns a supervisor that starts its processes in the group and
// calls onExit for each exit before a restart. onExit must not block.
func NewSupervisor(group *Group, clock clock.Clock, onExit func(Exit)) *Supervisor {
	return &Supervisor{group: group, clock: clock, onExit: onExit, children: map[string]*child{}}
}

// Start starts a process and supervises it until Stop.
func (s *Supervisor) Start(ctx context.Context, spec Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.children[spec.Name] != nil {
		return fmt.Errorf("%s is already supervised", spec.Name)
	}
	child := newChild(spec, s.group, s.clock, s.onExit)
	if err := child.start(); err != nil {
		return err
	}
	s.children[spec.Name] = child
	go child.supervise(ctx)
	return nil
}

// Exits returns how often a process has exited on its own.
func (s *Supervisor) Exits(name string) int {
	if child := s.child(name); child != nil {
		return int(child.exits.Load())
	}
	return 0
}

// Restart kills a process so that it is started again. onExit gets the reason.
func (s *Supervisor) Restart(name, reason string) {
	if child := s.child(name); child != nil {
		child.restart(reason)
	}
}

// Stop stops the named processes concurrently: with SIGTERM at first, and with
// SIGKILL after the limit. Unknown names are ignored.
func (s *Supervisor) Stop(limit time.Duration, names ...string) {
	var stopping sync.WaitGroup
	for _, name := range names {
		if child := s.child(name); child != nil {
			stopping.Go(func() { child.stop(limit) })
		}
	}
	stopping.Wait()
}

// ErrNotRunning is returned while a supervised process is between two runs.
var ErrNotRunning = errors.New("the process is not running")

// PID returns the id of a process that is running.
func (s *Supervisor) PID(name string) (int, error) {
	if child := s.child(name); child != nil {
		return child.pid()
	}
	return 0, ErrNotRunning
}

func (s *Supervisor) child(name string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.children[name]
}
