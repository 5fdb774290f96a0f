// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// roleVariable makes the test binary act as another program.
const roleVariable = "LOCALCLUSTER_TEST_ROLE"

// readyLine is what a program prints when it runs.
const readyLine = "ready"

// limit is how long a test waits for something that takes milliseconds.
const limit = 20 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "janitor":
		err := RunJanitor(os.Stdin, func() error { return os.RemoveAll(os.Args[1]) })
		fmt.Fprintln(os.Stderr, err)
	case "polite":
		announce()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		announce()
	case "failing":
		os.Exit(3)
	case "parent":
		playParent(os.Args[1], os.Args[2])
	}
	os.Exit(1)
}

// announce prints readyLine, and then runs until a signal ends it.
func announce() {
	fmt.Println(readyLine)
	time.Sleep(time.Hour)
}

// playParent supervises two children until it is killed.
func playParent(dir, logPath string) {
	group, err := StartGroup(janitor(dir))
	if err != nil {
		fmt.Println(err)
		return
	}
	supervisor := NewSupervisor(group, clock.RealClock{}, func(Exit) {})
	for _, role := range []string{"polite", "stubborn"} {
		if err := supervisor.Start(context.Background(), spec(role, logPath)); err != nil {
			fmt.Println(err)
			return
		}
	}
	time.Sleep(time.Hour)
}

func janitor(dir string) GroupConfig {
	return GroupConfig{
		Path: "/usr/bin/env",
		Args: []string{roleVariable + "=janitor", os.Args[0], dir},
		Log:  os.Stderr,
	}
}

func spec(role, logPath string) Spec {
	return Spec{Name: role, Path: os.Args[0], Env: []string{roleVariable + "=" + role}, LogPath: logPath}
}

// fifo is a log that reaches EOF when the last process that writes to it has ended.
type fifo struct {
	path  string
	lines chan string
}

func newFIFO(t *testing.T) *fifo {
	t.Helper()
	log := &fifo{path: t.TempDir() + "/log", lines: make(chan string, 100)}
	if err := syscall.Mkfifo(log.path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(log.lines)
		file, err := os.Open(log.path) // waits for the first writer
		if err != nil {
			return
		}
		defer func() { _ = file.Close() }()
		data := make([]byte, 1024)
		for {
			n, err := file.Read(data)
			for line := range strings.Lines(string(data[:n])) {
				log.lines <- strings.TrimSpace(line)
			}
			if err == io.EOF {
				return
			}
		}
	}()
	return log
}

// expectReady waits until a number of processes have printed readyLine.
func (f *fifo) expectReady(t *testing.T, times int) {
	t.Helper()
	for range times {
		select {
		case got, open := <-f.lines:
			if !open || got != readyLine {
				t.Fatalf("got line %q (open: %v), want %q", got, open, readyLine)
			}
		case <-time.After(limit):
			t.Fatal("a process did not start")
		}
	}
}

// expectEnd waits until all writers have ended.
func (f *fifo) expectEnd(t *testing.T) {
	t.Helper()
	deadline := time.After(limit)
	for {
		select {
		case _, open := <-f.lines:
			if !open {
				return
			}
		case <-deadline:
			t.Fatal("a process still runs")
		}
	}
}
