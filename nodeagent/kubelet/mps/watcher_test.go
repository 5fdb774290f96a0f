// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mps

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"
)

var start = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// limit bounds every wait.
const limit = 30 * time.Second

// await waits for a condition.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, limit, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("not within %v: %s", limit, what)
	}
}

func TestTheStateHasABeginning(t *testing.T) {
	t.Parallel()
	directory, clock := newDirectory(t), clocktesting.NewFakeClock(start)
	w := NewWatcher(directory, clock)
	if status := w.Status(); status.State != Stopped || !status.Since.IsZero() {
		t.Errorf("before the first probe: %+v", status)
	}
	check := func(what string, state State, since time.Duration, problem error) {
		t.Helper()
		w.Check(t.Context())
		status := w.Status()
		if status.State != state || !status.Since.Equal(start.Add(since)) || !errors.Is(status.Problem, problem) {
			t.Errorf("%s: %+v", what, status)
		}
		clock.Step(time.Minute)
	}
	check("there is no daemon", Stopped, 0, os.ErrNotExist)
	check("there still is none", Stopped, 0, os.ErrNotExist)
	listener := listen(t, directory, "unix")
	check("it has been started", Running, 2*time.Minute, nil)
	check("it still runs", Running, 2*time.Minute, nil)
	abandon(t, listener)
	check("it was killed", Stopped, 4*time.Minute, syscall.ECONNREFUSED)
	if err := os.Remove(filepath.Join(directory, control)); err != nil {
		t.Fatal(err)
	}
	check("its files were deleted", Stopped, 4*time.Minute, os.ErrNotExist)
}

func TestWithoutADirectoryThereIsNoDaemon(t *testing.T) {
	t.Parallel()
	w := NewWatcher("", clocktesting.NewFakeClock(start))
	w.Check(t.Context())
	w.Run(t.Context()) // returns at once
	if status := w.Status(); status != (Status{}) || w.Running() {
		t.Errorf("%+v", status)
	}
}

func TestAnInterruptedProbeSaysNothing(t *testing.T) {
	t.Parallel()
	directory := newDirectory(t)
	w := NewWatcher(directory, clocktesting.NewFakeClock(start))
	listen(t, directory, "unix")
	w.Check(t.Context())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.Check(ended)
	if !w.Running() {
		t.Errorf("%+v", w.Status())
	}
}

func TestTheDaemonIsProbedInTheBackground(t *testing.T) {
	t.Parallel()
	directory, clock := newDirectory(t), clocktesting.NewFakeClock(start)
	w := NewWatcher(directory, clock)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	listener := listen(t, directory, "unix")
	tick := func() {
		await(t, "the watcher waits", clock.HasWaiters)
		clock.Step(interval)
	}
	tick()
	await(t, "the daemon is noticed", w.Running)
	abandon(t, listener)
	tick()
	await(t, "its end is noticed", func() bool { return !w.Running() })
	cancel()
	<-done
}
