// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os/exec"
	"time"

	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/bench/measure"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

// polling compares a poll of eight simulated GPUs with the minimum cost of an agent that
// runs a command line tool: starting a process that does nothing. nvidia-smi itself takes
// longer.
func polling(ctx context.Context, rounds int) measure.Contest {
	wall := clock.RealClock{}
	m := monitor.New(monitor.Config{
		Source: simulation.New(simulation.Default(), "bench-0", wall), Clock: wall,
		Policy: health.DefaultPolicy(), Deadline: time.Second,
	})
	return measure.Contest{
		Name: "poll of 8 simulated GPUs", Rounds: rounds,
		Ours: func() error {
			m.Poll(ctx)
			return m.Snapshot().Problem
		},
		Than:     "start of an empty process",
		Baseline: func() error { return exec.CommandContext(ctx, "true").Run() },
	}
}
