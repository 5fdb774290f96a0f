// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Group is a process group whose members end with this process.
type Group struct {
	janitor *exec.Cmd
	pipe    io.WriteCloser
	done    chan struct{}
}

// GroupConfig configures the janitor.
type GroupConfig struct {
	// Path and Args are a program that calls RunJanitor with its standard input.
	Path string
	Args []string
	// Lock is a file that the janitor keeps open, so that a lock on it is held
	// until the cleanup is done. Optional.
	Lock *os.File
	// Keep keeps the files that the janitor would delete at the end.
	Keep bool
	// Log receives the janitor's standard error. Optional.
	Log io.Writer
}

// StartGroup starts the janitor, the first member of a new group.
func StartGroup(config GroupConfig) (*Group, error) {
	janitor := exec.Command(config.Path, config.Args...) //nolint:noctx // it outlives every context
	janitor.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	janitor.Stderr = config.Log
	if config.Lock != nil {
		janitor.ExtraFiles = []*os.File{config.Lock}
	}
	pipe, err := janitor.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("janitor: %w", err)
	}
	if err := janitor.Start(); err != nil {
		return nil, fmt.Errorf("janitor: %w", err)
	}
	group := &Group{janitor: janitor, pipe: pipe, done: make(chan struct{})}
	go func() {
		defer close(group.done)
		_ = janitor.Wait() // a signal always ends it
	}()
	if config.Keep {
		if _, err := io.WriteString(pipe, keepMessage); err != nil {
			return nil, fmt.Errorf("janitor: %w", err)
		}
	}
	return group, nil
}

// Adopt configures a command to start as a member of the group.
func (g *Group) Adopt(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.janitor.Process.Pid}
}

// Done is closed when the janitor has ended. Unless Close was called, children
// started from then on could outlive this process.
func (g *Group) Done() <-chan struct{} { return g.done }

// Close makes the janitor clean up and kill the rest of the group, and waits
// until it has.
func (g *Group) Close() {
	_ = g.pipe.Close() // an error means that the janitor is gone already
	<-g.done
}
