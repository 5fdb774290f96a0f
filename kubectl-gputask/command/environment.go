// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package command has the commands of kubectl-gputask, one file for each.
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

// Environment is what commands need of the world around them.
type Environment struct {
	genericiooptions.IOStreams
	Version string
	Clock   clock.Clock
	// Connect connects to the cluster that the flags name.
	Connect func(*genericclioptions.ConfigFlags) (*cluster.Clients, error)
	// Terminal is true if a person reads the output as it is written, Width how many
	// characters fit in a line then.
	Terminal bool
	Width    int
	// NoColour is what the variable NO_COLOR says.
	NoColour bool
	// Poll is how often is looked whether something has changed that is waited for.
	Poll time.Duration
	// HTTP asks node agents on this machine for their metrics.
	HTTP *http.Client
}

const (
	pollPeriod = 500 * time.Millisecond
	// agentTimeout is far more than an agent takes, which answers from memory; that of
	// localcluster stands for all nodes and needs seconds for 1,000 of them.
	agentTimeout = 10 * time.Second
)

// Real is the world.
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

// page is where output for a person goes.
func (s *session) page() *show.Page {
	return &show.Page{Writer: s.Out, Colours: s.coloured(), Width: s.Width, Now: s.Clock.Now()}
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
