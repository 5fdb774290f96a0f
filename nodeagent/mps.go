// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/mps"
	"falldio.github.io/gpu-controller/nodeagent/node/publish"
)

// mpsDaemon is the control daemon of NVIDIA's Multi-Process Service: who watches it, and what
// keeps it running, if the agent does.
type mpsDaemon struct {
	watcher    *mps.Watcher
	supervisor *mps.Supervisor   // nil unless the agent runs the daemon
	clients    *deviceplugin.MPS // nil without a daemon
}

// newMPSDaemon returns the daemon that the options ask for. If no resource is given out in
// shares, there is none.
func newMPSDaemon(opts *options, shares string, node *publish.View, c clock.Clock) *mpsDaemon {
	options := &opts.mps
	if shares == "" || options.directory() == "" {
		return &mpsDaemon{watcher: mps.NewWatcher("", c)}
	}
	d := &mpsDaemon{watcher: mps.NewWatcher(options.directory(), c)}
	d.clients = &deviceplugin.MPS{
		PipeDirectory: options.pipeDirectory, ShmDirectory: options.shmDirectory, Runs: d.watcher.Running,
	}
	if options.mode == mpsManaged {
		d.supervisor = mps.NewSupervisor(mps.Config{
			Program: options.program, PipeDirectory: options.pipeDirectory, LogDirectory: options.logDirectory,
			QuitOnExit: opts.cleanUpOnExit, Watcher: d.watcher, Clock: c,
			Paused: func() (bool, <-chan struct{}) {
				changed := node.Changed()
				return node.Paused() != nil, changed
			},
		})
	}
	return d
}

// start probes the daemon once, and then watches it, and keeps it running if need be, until
// ctx ends.
func (d *mpsDaemon) start(ctx context.Context, group *wait.Group) {
	d.watcher.Check(ctx)
	group.StartWithContext(ctx, d.watcher.Run)
	if d.supervisor != nil {
		group.StartWithContext(ctx, d.supervisor.Run)
	}
}
