// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/nvml"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

// sources are where the GPUs come from: NVIDIA's library, or a simulation for each node.
type sources struct {
	opts      *options
	clock     clock.WithTicker
	simulated simulation.Sources
}

func newSources(opts *options) *sources {
	return &sources{opts: opts, clock: clock.RealClock{}, simulated: simulation.Sources{}}
}

// of returns the GPUs of a node. The profile describes them if they are simulated.
func (s *sources) of(node string, profile *simulation.Profile) gpu.Source {
	if !s.opts.Simulated() {
		return nvml.New(nvml.Options{Library: s.opts.NVMLLibrary})
	}
	return s.simulated.Add(node, profile, s.clock)
}

// readFaults injects the faults of the file, whenever it changes, until ctx ends.
func (s *sources) readFaults(ctx context.Context) error {
	if s.opts.SimulationFaults == "" {
		return nil
	}
	file := s.simulated.FaultFile(s.opts.SimulationFaults)
	every(ctx, s.clock, time.Second, func(ctx context.Context) {
		if err := file.Check(); err != nil {
			klog.FromContext(ctx).Error(err, "The faults of the simulation can't be read")
		}
	})
	return nil
}
