// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestNextDelay(t *testing.T) {
	tests := map[string]struct{ previous, ran, want time.Duration }{
		"the first failure waits shortly":                 {0, time.Second, 200 * time.Millisecond},
		"the next one waits twice as long":                {200 * time.Millisecond, time.Second, 400 * time.Millisecond},
		"the wait has a limit":                            {4 * time.Second, time.Second, 5 * time.Second},
		"a failure after a healthy time counts as first":  {5 * time.Second, 30 * time.Second, 200 * time.Millisecond},
		"a failure just before that continues the series": {800 * time.Millisecond, 29 * time.Second, 1600 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := nextDelay(test.previous, test.ran); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestSupervisorRestartsAKilledProcess(t *testing.T) {
	supervisor, exits, clock := newSupervisor(t)
	log := newFIFO(t)
	var prepared atomic.Int32
	polite := spec("polite", log.path)
	polite.BeforeRestart = func(context.Context) { prepared.Add(1) }
	if err := supervisor.Start(t.Context(), polite); err != nil {
		t.Fatal(err)
	}
	hold := openWriter(t, log.path) // keeps the log open between two runs
	defer func() { _ = hold.Close() }()
	log.expectReady(t, 1)

	first, err := supervisor.PID("polite")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exit := receive(t, exits)
	if exit.Reason != "signal: killed" || exit.Delay != firstDelay {
		t.Errorf("got %+v", exit)
	}
	step(t, clock, firstDelay)
	log.expectReady(t, 1)
	second, err := supervisor.PID("polite")
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Error("the process has the id of the dead one")
	}
	if got := prepared.Load(); got != 1 {
		t.Errorf("BeforeRestart ran %d times, want 1", got)
	}
}

func TestSupervisorTellsTheReasonOfARestart(t *testing.T) {
	supervisor, exits, _ := newSupervisor(t)
	if err := supervisor.Start(t.Context(), spec("stubborn", filepath.Join(t.TempDir(), "log"))); err != nil {
		t.Fatal(err)
	}
	supervisor.Restart("stubborn", "the API server restarted")
	want := Exit{Name: "stubborn", Reason: "the API server restarted"}
	if diff := cmp.Diff(want, receive(t, exits)); diff != "" {
		t.Errorf("exit (-want +got):\n%s", diff)
	}
	if got := supervisor.Exits("stubborn"); got != 0 {
		t.Errorf("a restart counts as %d failures", got)
	}
}

func TestSupervisorWaitsLongerForEachFailure(t *testing.T) {
	supervisor, exits, clock := newSupervisor(t)
	if err := supervisor.Start(t.Context(), spec("failing", filepath.Join(t.TempDir(), "log"))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []time.Duration{firstDelay, 2 * firstDelay, 4 * firstDelay} {
		exit := receive(t, exits)
		if exit.Delay != want || exit.Reason != "exit status 3" {
			t.Errorf("got %+v, want a delay of %v", exit, want)
		}
		step(t, clock, want)
	}
	if got := supervisor.Exits("failing"); got < 3 {
		t.Errorf("got %d exits, want at least 3", got)
	}
}

func TestStopEndsPoliteAndStubbornProcesses(t *testing.T) {
	group := newGroup(t, t.TempDir())
	supervisor := NewSupervisor(group, clock.RealClock{}, func(exit Exit) { t.Errorf("unexpected %+v", exit) })
	log := newFIFO(t)
	for _, role := range []string{"polite", "stubborn"} {
		if err := supervisor.Start(t.Context(), spec(role, log.path)); err != nil {
			t.Fatal(err)
		}
	}
	log.expectReady(t, 2)
	supervisor.Stop(200*time.Millisecond, "polite", "stubborn")
	log.expectEnd(t)
}

func TestStopEndsTheWaitForARestart(t *testing.T) {
	supervisor, exits, _ := newSupervisor(t)
	if err := supervisor.Start(t.Context(), spec("failing", filepath.Join(t.TempDir(), "log"))); err != nil {
		t.Fatal(err)
	}
	receive(t, exits)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		supervisor.Stop(limit, "failing", "unknown")
	}()
	expectClosed(t, stopped, "Stop still waits")
}

func TestStartFailsForAMissingProgram(t *testing.T) {
	supervisor, _, _ := newSupervisor(t)
	err := supervisor.Start(t.Context(), Spec{Name: "x", Path: "/does/not/exist", LogPath: filepath.Join(t.TempDir(), "log")})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	log := newFIFO(t)
	parent := exec.CommandContext(t.Context(), os.Args[0], dir, log.path)
	parent.Env = append(os.Environ(), roleVariable+"=parent")
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	log.expectReady(t, 2)
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	log.expectEnd(t)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory still exists: %v", err)
	}
}

func TestProcessesAreInTheJanitorsGroup(t *testing.T) {
	group := newGroup(t, t.TempDir())
	supervisor := NewSupervisor(group, clock.RealClock{}, func(Exit) {})
	if err := supervisor.Start(t.Context(), spec("polite", filepath.Join(t.TempDir(), "log"))); err != nil {
		t.Fatal(err)
	}
	pid, err := supervisor.PID("polite")
	if err != nil {
		t.Fatal(err)
	}
	got, err := syscall.Getpgid(pid)
	if err != nil {
		t.Fatal(err)
	}
	if got != group.janitor.Process.Pid || got == syscall.Getpgrp() {
		t.Errorf("the process is in group %d, the janitor is %d", got, group.janitor.Process.Pid)
	}
}

func TestDoneTellsOfTheJanitorsDeath(t *testing.T) {
	group := newGroup(t, t.TempDir())
	if err := group.janitor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	expectClosed(t, group.Done(), "the janitor's death went unnoticed")
}

func TestCloseDeletesTheFilesUnlessToldToKeepThem(t *testing.T) {
	for name, keep := range map[string]bool{"deletes": false, "keeps": true} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cluster")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			config := janitor(dir)
			config.Keep = keep
			group, err := StartGroup(config)
			if err != nil {
				t.Fatal(err)
			}
			group.Close()
			_, err = os.Stat(dir)
			if kept := err == nil; kept != keep {
				t.Errorf("kept: %v, want %v", kept, keep)
			}
		})
	}
}

func TestTail(t *testing.T) {
	tests := map[string]struct {
		content string
		want    string
	}{
		"of an empty log is empty":          {"", ""},
		"of a short log is all of it":       {"a\nb\n", "a\nb"},
		"of a longer log is its last lines": {"a\nb\nc\nd\n", "c\nd"},
		"of a huge log is its last lines":   {strings.Repeat("x", 2*tailWindow) + "\nc\nd", "c\nd"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Tail(path, 2)
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func newGroup(t *testing.T, dir string) *Group {
	t.Helper()
	group, err := StartGroup(janitor(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(group.Close)
	return group
}

func newSupervisor(t *testing.T) (*Supervisor, <-chan Exit, *clocktesting.FakeClock) {
	t.Helper()
	exits := make(chan Exit, 10)
	clock := clocktesting.NewFakeClock(time.Now())
	return NewSupervisor(newGroup(t, t.TempDir()), clock, func(exit Exit) { exits <- exit }), exits, clock
}

func openWriter(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func receive(t *testing.T, exits <-chan Exit) Exit {
	t.Helper()
	select {
	case exit := <-exits:
		return exit
	case <-time.After(limit):
		t.Fatal("the end of the process went unnoticed")
		return Exit{}
	}
}

// step advances the clock once it has a waiter.
func step(t *testing.T, clock *clocktesting.FakeClock, duration time.Duration) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !clock.HasWaiters() {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for the clock")
		}
		time.Sleep(time.Millisecond)
	}
	clock.Step(duration)
}

func expectClosed(t *testing.T, channel <-chan struct{}, otherwise string) {
	t.Helper()
	select {
	case <-channel:
	case <-time.After(limit):
		t.Fatal(otherwise)
	}
}
