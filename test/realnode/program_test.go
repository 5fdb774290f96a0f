// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

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

// program is a process that can be killed and started again. All its runs write
// to the same log.
type program struct {
	name string
	args []string
	log  string

	command *exec.Cmd
	// ended is closed when the process has ended; err is then its error.
	ended chan struct{}
	err   error
}

func newProgram(logs, name string, args ...string) *program {
	return &program{name: name, args: args, log: filepath.Join(logs, name+".log")}
}

func (p *program) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own copy
	command := exec.Command(p.args[0], p.args[1:]...)
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

func (p *program) running() bool {
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

// kill ends the process as a crash would.
func (p *program) kill() error {
	if err := p.command.Process.Kill(); err != nil {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// stop terminates the process gracefully and returns its error.
func (p *program) stop() error {
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
		return errors.Join(fmt.Errorf("%s did not end within %v", p.name, stopLimit), p.kill())
	}
}

// waitUntil waits until the check succeeds for a program that has just been
// started.
func (p *program) waitUntil(limit time.Duration, check func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := check()
		if err == nil {
			return nil
		}
		if !p.running() {
			return fmt.Errorf("%s ended instead of starting: %w", p.name, p.err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s was not ready after %v: %w", p.name, limit, err)
		}
		time.Sleep(pollEvery)
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
