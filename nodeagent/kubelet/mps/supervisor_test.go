// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// supervised is a Supervisor of stand-ins.
type supervised struct {
	config Config
	clock  *clocktesting.FakeClock
	stop   func()
}

// supervise starts a Supervisor; stop ends it.
func supervise(t *testing.T, program string, quitOnExit bool) *supervised {
	t.Helper()
	directory, clock := newDirectory(t), clocktesting.NewFakeClock(start)
	s := &supervised{clock: clock, config: Config{
		Program: program, PipeDirectory: filepath.Join(directory, "pipe"), LogDirectory: filepath.Join(directory, "log"), QuitOnExit: quitOnExit, Clock: clock,
	}}
	s.config.Watcher = NewWatcher(s.config.PipeDirectory, clock)
	s.run(t)
	return s
}

func (s *supervised) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		NewSupervisor(s.config).Run(ctx)
	}()
	s.stop = func() { cancel(); <-done }
	t.Cleanup(s.stop)
}

// pid returns the process ID of the daemon that runs; 0 if none does.
func (s *supervised) pid(t *testing.T) int {
	t.Helper()
	if probe(context.WithoutCancel(t.Context()), s.config.PipeDirectory) != nil {
		return 0
	}
	text, err := os.ReadFile(filepath.Join(s.config.PipeDirectory, pidFile))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(text))
	return pid
}

// awaitDaemon waits for a daemon other than one before, and returns its process ID.
func (s *supervised) awaitDaemon(t *testing.T, before int) int {
	t.Helper()
	pid := 0
	await(t, "a daemon runs", func() bool {
		pid = s.pid(t)
		return pid != 0 && pid != before
	})
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// kill returns when the daemon is gone.
func (s *supervised) kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "the daemon is gone", func() bool { return s.pid(t) != pid })
}

// advance lets the Supervisor's pause end.
func (s *supervised) advance(t *testing.T, duration time.Duration) {
	t.Helper()
	await(t, "the supervisor waits", s.clock.HasWaiters)
	s.clock.Step(duration)
}

func TestADaemonThatIsKilledIsRestarted(t *testing.T) {
	t.Parallel()
	s := supervise(t, os.Args[0], false)
	first := s.awaitDaemon(t, 0)
	if _, err := os.Stat(filepath.Join(s.config.LogDirectory, logFile)); err != nil {
		t.Errorf("the daemon has no log: %v", err)
	}
	s.kill(t, first)
	s.advance(t, minBackoff)
	second := s.awaitDaemon(t, first)
	s.kill(t, second)
	s.advance(t, 2*minBackoff)
	s.awaitDaemon(t, second)
}

func TestTheDaemonOutlivesTheAgent(t *testing.T) {
	t.Parallel()
	s := supervise(t, os.Args[0], false)
	pid := s.awaitDaemon(t, 0)
	s.stop()
	if now := s.pid(t); now != pid {
		t.Fatalf("after the agent has ended: daemon %d, want %d", now, pid)
	}
	s.run(t) // the next agent
	s.advance(t, interval)
	await(t, "the next agent waits", s.clock.HasWaiters)
	if now := s.pid(t); now != pid {
		t.Errorf("the next agent has started daemon %d although %d runs", now, pid)
	}
	s.kill(t, pid) // no child of the next agent
	s.advance(t, interval)
	s.awaitDaemon(t, pid)
}

func TestTheDaemonQuitsWithTheAgentIfAskedTo(t *testing.T) {
	t.Parallel()
	s := supervise(t, os.Args[0], true)
	s.awaitDaemon(t, 0)
	s.stop()
	if pid := s.pid(t); pid != 0 {
		t.Errorf("daemon %d still runs", pid)
	}
}

func TestNoDaemonRunsWhileTheDriverIsPaused(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	paused, changed := false, make(chan struct{})
	set := func(now bool) {
		mu.Lock()
		defer mu.Unlock()
		close(changed)
		paused, changed = now, make(chan struct{})
	}
	s := supervise(t, os.Args[0], false)
	first := s.awaitDaemon(t, 0)
	s.stop() // a daemon of an earlier run is there
	s.config.Paused = func() (bool, <-chan struct{}) {
		mu.Lock()
		defer mu.Unlock()
		return paused, changed
	}
	s.run(t)
	for range 2 {
		// The daemon misses the first order.
		if err := os.WriteFile(filepath.Join(s.config.LogDirectory, deafFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		set(true)
		await(t, "the daemon is gone", func() bool {
			s.clock.Step(interval)
			return s.pid(t) == 0
		})
		set(false)
		await(t, "a daemon runs", func() bool {
			s.clock.Step(interval)
			return s.pid(t) != 0
		})
		if second := s.awaitDaemon(t, first); second == first {
			t.Errorf("daemon %d runs still", first)
		}
	}
}

func TestAnAgentWithoutADaemonHasNothingToQuit(t *testing.T) {
	t.Parallel()
	s := supervise(t, filepath.Join(t.TempDir(), "missing"), true)
	s.advance(t, minBackoff)
	await(t, "the supervisor waits to try again", s.clock.HasWaiters)
	s.stop()
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ last, ran, want time.Duration }{
		"the first one is short":             {0, 0, time.Second},
		"it doubles":                         {time.Second, time.Minute, 2 * time.Second},
		"up to a limit":                      {4 * time.Minute, time.Second, 5 * time.Minute},
		"a daemon that has run long is good": {4 * time.Minute, 10 * time.Minute, time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := nextBackoff(test.last, test.ran); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
