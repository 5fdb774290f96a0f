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

// GroupConfig says how to start the janitor.
type GroupConfig struct {
	// Path and Args are a program that calls RunJanitor with its standard input.
	Path string
	Args []string
	// Lock is a file that the janitor keeps open, so that whatever lock is on
	// it lasts until the clean-up is done. Optional.
	Lock *os.File
	// Keep spares the files that the janitor would delete at the end.
	Keep bool
	// Log receives what the janitor has to say. Optional.
	Log io.Writer
}

// StartGroup starts the janitor and with it an otherwise empty group.
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
		_ = janitor.Wait() // it always ends by a signal
	}()
	if config.Keep {
		if _, err := io.WriteString(pipe, keepOrder); err != nil {
			return nil, fmt.Errorf("janitor: %w", err)
		}
	}
	return group, nil
}

// Adopt makes a command start as a member of the group.
func (g *Group) Adopt(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: g.janitor.Process.Pid}
}

// Done is closed when the janitor has ended. If nobody called Close, children
// that are started from then on could outlive this process.
func (g *Group) Done() <-chan struct{} { return g.done }

// Close has the janitor clean up and kill what is left of the group, and waits
// for that.
func (g *Group) Close() {
	_ = g.pipe.Close() // an error says that the janitor is gone already
	<-g.done
}
