// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/pkg/program"
)

// The values of --mps.
const (
	mpsAuto     = ""
	mpsOff      = "off"
	mpsExternal = "external"
	mpsManaged  = "managed"
)

// mpsOptions are the flags about NVIDIA's Multi-Process Service, which limits shares of GPUs.
type mpsOptions struct {
	mode          string
	pipeDirectory string
	shmDirectory  string
	logDirectory  string
	program       string
}

func (o *mpsOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.mode, "mps", o.mode,
		"who runs the control daemon of NVIDIA's Multi-Process Service, whose clients the containers with a share of a GPU become, with limits: off (nobody), external (somebody else) or managed (the agent); by default external if --mps-pipe-directory is set, else off")
	flags.StringVar(&o.pipeDirectory, "mps-pipe-directory", o.pipeDirectory,
		"folder of the MPS control daemon's socket, for example /run/nvidia-mps, the same on the node and for the agent")
	flags.StringVar(&o.shmDirectory, "mps-shm-directory", o.shmDirectory,
		"folder on the node that is the MPS control daemon's /dev/shm; it becomes that of the containers with a share. Empty to leave theirs in place: then they need hostIPC")
	flags.StringVar(&o.logDirectory, "mps-log-directory", o.logDirectory, "folder for the logs of the MPS control daemon, for --mps=managed")
	flags.StringVar(&o.program, "mps-control-program", o.program, "program of the MPS control daemon, for --mps=managed")
}

func (o *mpsOptions) validate(problems *program.Problems) {
	require := problems.Require
	if o.mode != mpsAuto {
		problems.OneOf("mps", o.mode, mpsOff, mpsExternal, mpsManaged)
	}
	require(o.pipeDirectory != "" || o.mode != mpsExternal && o.mode != mpsManaged, "--mps=%s: needs --mps-pipe-directory", o.mode)
	require(o.shmDirectory == "" || o.pipeDirectory != "", "--mps-shm-directory: needs --mps-pipe-directory")
	require(o.program != "", "--mps-control-program: must not be empty")
	problems.AbsoluteOrNone("mps-pipe-directory", o.pipeDirectory)
	problems.AbsoluteOrNone("mps-shm-directory", o.shmDirectory)
	problems.AbsoluteOrNone("mps-log-directory", o.logDirectory)
}

// directory returns the directory of the daemon whose clients containers become; empty if
// there is none.
func (o *mpsOptions) directory() string {
	if o.mode == mpsOff {
		return ""
	}
	return o.pipeDirectory
}
