// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"falldio.github.io/gpu-controller/test/programs"
)

// stopLimit is how long a program may take to end after SIGTERM.
const stopLimit = time.Minute

// program is a process that runs, with its log.
type program struct {
	command *exec.Cmd
	// ended is closed when the process has ended; err is then its error.
	ended chan struct{}
	err   error
	log   programs.Output
}

func startProgram(path string, args ...string) (*program, error) {
	p := &program{command: exec.Command(path, args...), ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	return p, nil
}

// tail returns the last lines of the log that contain a text.
func (p *program) tail(lines int, text string) string {
	var found []string
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return strings.Join(found[max(0, len(found)-lines):], "")
}

func (p *program) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// stop terminates the process gracefully. It returns its error, or that of the race detector.
func (p *program) stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
	case <-time.After(stopLimit):
		_ = p.command.Process.Kill()
		return fmt.Errorf("%s did not stop within %v", p.command.Path, stopLimit)
	}
	if strings.Contains(p.log.String(), "DATA RACE") {
		return fmt.Errorf("%s has a data race:\n%s", p.command.Path, &p.log)
	}
	if p.err != nil {
		return fmt.Errorf("%s ended: %w\n%s", p.command.Path, p.err, p.tail(100, ""))
	}
	return nil
}
