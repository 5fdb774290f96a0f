// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"path/filepath"

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

func newMPSOptions() mpsOptions {
	return mpsOptions{logDirectory: "/var/log/nvidia-mps", program: "nvidia-cuda-mps-control"}
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

// validate returns all mistakes.
func (o *mpsOptions) validate() error {
	var problems program.Problems
	require := problems.Require
	require(o.mode == mpsAuto || o.mode == mpsOff || o.mode == mpsExternal || o.mode == mpsManaged,
		"--mps=%s: must be %s, %s or %s", o.mode, mpsOff, mpsExternal, mpsManaged)
	require(o.pipeDirectory != "" || o.mode != mpsExternal && o.mode != mpsManaged, "--mps=%s: needs --mps-pipe-directory", o.mode)
	require(o.shmDirectory == "" || o.pipeDirectory != "", "--mps-shm-directory: needs --mps-pipe-directory")
	require(o.program != "", "--mps-control-program: must not be empty")
	for flag, path := range map[string]string{
		"mps-pipe-directory": o.pipeDirectory, "mps-shm-directory": o.shmDirectory, "mps-log-directory": o.logDirectory,
	} {
		require(path == "" || filepath.IsAbs(path), "--%s=%s: must be an absolute path", flag, path)
	}
	return errors.Join(problems...)
}

// directory returns the directory of the daemon whose clients containers become; empty if
// there is none.
func (o *mpsOptions) directory() string {
	if o.mode == mpsOff {
		return ""
	}
	return o.pipeDirectory
}

// managed reports whether the agent runs the daemon.
func (o *mpsOptions) managed() bool { return o.mode == mpsManaged }
