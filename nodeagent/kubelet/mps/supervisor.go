// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"cmp"
	"context"
	"os"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// Config configures a Supervisor.
type Config struct {
	// Program is NVIDIA's nvidia-cuda-mps-control.
	Program string
	// PipeDirectory and LogDirectory are the daemon's; they are created. An empty
	// LogDirectory stands for the daemon's default.
	PipeDirectory, LogDirectory string
	// QuitOnExit ends the daemon when the Supervisor ends.
	QuitOnExit bool
	// Paused reports whether no daemon may run for now, and returns a channel that is closed when
	// that may have changed. Nil if one always may.
	Paused func() (bool, <-chan struct{})
	// Watcher watches PipeDirectory.
	Watcher *Watcher
	Clock   clock.Clock
}

// Supervisor keeps the daemon running.
//
// It leaves a daemon alone that runs already, such as one of an earlier run: it has clients,
// and refuses a second daemon in its directory. And it does not end the daemon when it ends
// itself, unless it is asked to: the clients compute through servers that the daemon has
// started and that end when it quits, so their CUDA calls would fail. That helps an agent that
// runs on the node itself. In a container, all processes end with the first one.
type Supervisor struct{ config Config }

// NewSupervisor returns a Supervisor that does nothing until Run.
func NewSupervisor(config Config) *Supervisor { return &Supervisor{config: config} }

// Run starts the daemon whenever it does not run, until ctx ends. While none may run, it ends one
// that does, whoever has started it.
func (s *Supervisor) Run(ctx context.Context) {
	var backoff time.Duration
	for ctx.Err() == nil {
		delay := interval
		s.config.Watcher.Check(ctx)
		switch paused, _ := s.paused(); {
		case paused:
			s.quit(ctx)
		case !s.config.Watcher.Running():
			backoff = s.runOnce(ctx, backoff)
			delay = cmp.Or(backoff, interval)
		}
		pause(ctx, s.config.Clock, delay)
	}
	if s.config.QuitOnExit {
		s.quit(ctx)
	}
}

func (s *Supervisor) paused() (bool, <-chan struct{}) {
	if s.config.Paused == nil {
		return false, nil
	}
	return s.config.Paused()
}

// runOnce runs the daemon until it ends, and returns when to start it again, given the last
// backoff; 0 if it was meant to end. It returns earlier if ctx ends; then the daemon runs on.
func (s *Supervisor) runOnce(ctx context.Context, backoff time.Duration) time.Duration {
	began := s.config.Clock.Now()
	ended, err := s.start(ctx)
	if err == nil {
		var meant bool
		if meant, err = s.await(ctx, ended); meant {
			return 0
		}
	}
	backoff = nextBackoff(backoff, s.config.Clock.Since(began))
	klog.FromContext(ctx).Error(err, "The MPS control daemon has ended", "program", s.config.Program, "restartIn", backoff)
	return backoff
}

// await waits until the daemon has ended, and tells it to while none may run: more than once, since
// it does not hear that before it listens. meant is true if it was told to, or ctx has ended.
func (s *Supervisor) await(ctx context.Context, ended <-chan error) (meant bool, err error) {
	for {
		paused, changed := s.paused()
		var again <-chan time.Time
		if paused {
			s.quit(ctx)
			meant, again = true, s.config.Clock.After(interval)
		}
		select {
		case <-ctx.Done():
			return true, nil
		case err = <-ended:
			return meant, err
		case <-changed:
		case <-again:
		}
	}
}

// start starts the daemon. It returns a channel for the daemon's end.
func (s *Supervisor) start(ctx context.Context) (<-chan error, error) {
	for _, directory := range []string{s.config.PipeDirectory, s.config.LogDirectory} {
		if directory == "" {
			continue
		}
		if err := os.MkdirAll(directory, 0o755); err != nil { //nolint:gosec // the clients are other users
			return nil, err
		}
	}
	command := s.daemon(ctx)
	if err := command.Start(); err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Started the MPS control daemon", "program", s.config.Program, "pid", command.Process.Pid)
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	return ended, nil
}

// quitLimit is how long the daemon may take to quit: its servers wait for what their clients
// are computing.
const quitLimit = 5 * time.Second

// quit asks the daemon to quit, whoever has started it.
func (s *Supervisor) quit(ctx context.Context) {
	logger := klog.FromContext(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), quitLimit)
	defer cancel()
	if s.config.Watcher.Check(ctx); !s.config.Watcher.Running() {
		return
	}
	if err := s.ask(ctx, "quit").Run(); err != nil {
		logger.Error(err, "The MPS control daemon does not quit")
	}
}

// The bounds of the backoff, and how long a daemon must have run for the next one to begin
// anew.
const (
	minBackoff = time.Second
	maxBackoff = 5 * time.Minute
	longRun    = 10 * time.Minute
)

// nextBackoff returns when to restart a daemon that has run for some time, given the last
// backoff.
func nextBackoff(last, ran time.Duration) time.Duration {
	if last == 0 || ran >= longRun {
		return minBackoff
	}
	return min(2*last, maxBackoff)
}
