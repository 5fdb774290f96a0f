// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command implements the commands of kubectl-gputask, one file for each.
package command

import (
	"net/http"
	"os"
	"time"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/kubectl-gputask/cluster"
	"falldio.github.io/gpu-controller/kubectl-gputask/show"
)

// Environment holds the external dependencies of the commands.
type Environment struct {
	genericiooptions.IOStreams
	Version string
	Clock   clock.Clock
	// Connect connects to the cluster selected by the flags.
	Connect func(*genericclioptions.ConfigFlags) (*cluster.Clients, error)
	// Terminal is true if the output goes to a terminal; Width is then its width in
	// characters.
	Terminal bool
	Width    int
	// NoColour is true if NO_COLOR is set or the terminal is dumb.
	NoColour bool
	// Poll is the interval at which the commands that wait poll the API server.
	Poll time.Duration
	// HTTP is the client for the metrics of node agents on this machine.
	HTTP *http.Client
}

const (
	pollPeriod = 500 * time.Millisecond
	// agentTimeout is far more than an agent needs, which answers from memory; that of
	// localcluster simulates all nodes and needs seconds for 1,000 of them.
	agentTimeout = 10 * time.Second
)

// Real returns the environment of the real program.
func Real(version string) *Environment {
	e := &Environment{
		IOStreams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Version:   version,
		Clock:     clock.RealClock{},
		Connect:   cluster.Connect,
		NoColour:  os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb",
		Poll:      pollPeriod,
		HTTP:      &http.Client{Timeout: agentTimeout},
	}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		e.Terminal = true
		if width, _, err := term.GetSize(fd); err == nil {
			e.Width = width
		}
	}
	return e
}

// page returns the page that human-readable output is written to.
func (s *session) page() *show.Page {
	now := s.Clock.Now()
	if s.utc {
		now = now.UTC()
	}
	return &show.Page{Writer: show.Safe(s.Out), Colours: s.coloured(), Width: s.Width, Now: now}
}

func (s *session) coloured() bool {
	switch s.colour {
	case "always":
		return true
	case "never":
		return false
	default:
		return s.Terminal && !s.NoColour
	}
}
