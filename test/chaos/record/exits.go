// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"io"
	"regexp"
	"sync"

	"falldio.github.io/gpu-controller/test/chaos/history"
)

// exitLine is how localcluster reports the end of a process that it is going to start again:
// "! gpu-scheduler: signal: killed; restarting it in 0.2s". What localcluster restarts itself
// ("restarting it because …") has not ended by itself.
var exitLine = regexp.MustCompile(`^! ([a-z-]+): (.+); restarting it in [0-9.]+s$`)

// Exits passes on the output of localcluster, and records the ends of processes in it.
type Exits struct {
	out io.Writer
	log *Log

	mu   sync.Mutex
	line bytes.Buffer
}

// NewExits returns a writer for the output of localcluster.
func NewExits(out io.Writer, log *Log) *Exits { return &Exits{out: out, log: log} }

// Write records what ends in complete lines.
func (e *Exits) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.line.Write(p)
	for {
		line, rest, found := bytes.Cut(e.line.Bytes(), []byte("\n"))
		if !found {
			break
		}
		if exit := exitIn(string(line)); exit != nil {
			e.log.Append(history.Entry{Exit: exit})
		}
		e.line = *bytes.NewBuffer(bytes.Clone(rest))
	}
	return e.out.Write(p)
}

func exitIn(line string) *history.Exit {
	found := exitLine.FindStringSubmatch(line)
	if found == nil {
		return nil
	}
	return &history.Exit{Process: found[1], Reason: found[2]}
}
