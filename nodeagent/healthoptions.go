// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
)

// healthOptions are the flags for GPUs that fail again and again, or are not found.
type healthOptions struct {
	escalation   health.Escalation
	expectedGPUs int
}

func newHealthOptions() healthOptions {
	return healthOptions{escalation: health.DefaultPolicy().Escalation}
}

func (o *healthOptions) addTo(flags *pflag.FlagSet) {
	flags.IntVar(&o.escalation.After, "escalate-after", o.escalation.After,
		"how many faults of its own within the escalation window make a GPU unhealthy until it is reset, whatever the driver says; 0 for never")
	flags.DurationVar(&o.escalation.Window, "escalation-window", o.escalation.Window, "time in which faults are counted for --escalate-after")
	flags.IntVar(&o.expectedGPUs, "expected-gpus", o.expectedGPUs,
		"how many GPUs the node should have: if fewer are found, it is degraded; 0 to compare with the PCI bus only")
}

// validate returns all mistakes; fleet is true if the process is the agent of many nodes.
func (o *healthOptions) validate(fleet bool) error {
	var problems []error
	require := func(holds bool, format string, values ...any) {
		if !holds {
			problems = append(problems, fmt.Errorf(format, values...))
		}
	}
	require(o.escalation.After >= 0 && o.escalation.After <= health.MaxAfter,
		"--escalate-after=%d: must be between 0 and %d", o.escalation.After, health.MaxAfter)
	require(o.escalation.Window > 0, "--escalation-window=%v: must be greater than 0", o.escalation.Window)
	require(o.expectedGPUs >= 0, "--expected-gpus=%d: must not be negative", o.expectedGPUs)
	require(o.expectedGPUs == 0 || !fleet, "--expected-gpus: has no meaning with --simulated-nodes, which may have different numbers of GPUs")
	return errors.Join(problems...)
}
