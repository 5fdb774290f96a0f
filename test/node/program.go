// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// stopLimit is how long a program may take to end after SIGTERM.
	stopLimit = 30 * time.Second
	// tailLines is how much of each log is shown when a test fails.
	tailLines = 60
)

// Program is a process that can be killed and started again. All its runs write
// to the same log.
type Program struct {
	name string
	// Args are the program and its arguments at the next start.
	Args []string
	// Log is the file with what it prints.
	Log string

	command *exec.Cmd
	// ended is closed when the process has ended; err is then its error.
	ended chan struct{}
	err   error
}

// NewProgram returns a program that does not run yet. Its log is in the folder logs.
func NewProgram(logs, name string, args ...string) *Program {
	return &Program{name: name, Args: args, Log: filepath.Join(logs, name+".log")}
}

// Start starts it.
func (p *Program) Start() error {
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own copy
	command := exec.Command(p.Args[0], p.Args[1:]...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	ended := make(chan struct{})
	p.command, p.ended, p.err = command, ended, nil
	go func() {
		p.err = command.Wait()
		close(ended)
	}()
	return nil
}

// Running reports whether it runs.
func (p *Program) Running() bool {
	if p.command == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process as a crash would.
func (p *Program) Kill() error {
	if err := p.command.Process.Kill(); err != nil {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// Stop terminates the process gracefully and returns its error.
func (p *Program) Stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		if p.err != nil {
			return fmt.Errorf("%s: %w", p.name, p.err)
		}
		return nil
	case <-time.After(stopLimit):
		return errors.Join(fmt.Errorf("%s did not end within %v", p.name, stopLimit), p.Kill())
	}
}

// WaitUntil waits until the check succeeds for a program that has just been
// started.
func (p *Program) WaitUntil(limit time.Duration, check func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if !p.Running() {
			return fmt.Errorf("%s ended instead of starting: %w", p.name, p.err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not ready after %v: %w", p.name, limit, err)
		}
		time.Sleep(PollEvery)
	}
}

// tail returns the end of a log.
func tail(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-tailLines):], []byte("\n")))
}
