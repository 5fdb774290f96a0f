// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings has the flags that the node agent and the DRA driver have in common: where the GPUs come
// from, and when they are healthy.
package settings

import (
	"time"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	"falldio.github.io/gpu-controller/pkg/program"
)

// The values of --source.
const (
	sourceAuto      = "auto"
	SourceNVML      = "nvml"
	SourceSimulated = "simulated"
)

// Settings are the flags, and what CompleteSettings derives from them.
type Settings struct {
	Source            string
	NVMLLibrary       string
	SimulationProfile string
	SimulationFaults  string
	SimulatedNodes    string

	PollDeadline   time.Duration
	XIDPolicy      string
	RecoveryPeriod time.Duration
	Escalation     health.Escalation

	// Policy says when GPUs are healthy.
	Policy health.Policy
	// Profile describes the simulated GPUs.
	Profile *simulation.Profile
	// Fleet are the nodes of --simulated-nodes.
	Fleet []simulation.Node
}

// Default returns the defaults of the flags.
func Default() Settings {
	policy := health.DefaultPolicy()
	return Settings{Source: sourceAuto, PollDeadline: 10 * time.Second, RecoveryPeriod: policy.RecoveryPeriod, Escalation: policy.Escalation}
}

// AddFlags adds the flags. The help of two of them is the program's own.
func (s *Settings) AddFlags(flags *pflag.FlagSet, simulatedNodes, xidPolicy string) {
	flags.StringVar(&s.Source, "source", s.Source,
		"where the GPUs come from: nvml, simulated, or auto: simulated if a profile is given, else nvml")
	flags.StringVar(&s.NVMLLibrary, "nvml-library", s.NVMLLibrary, "path of libnvidia-ml.so.1; by default the dynamic linker finds it")
	flags.StringVar(&s.SimulationProfile, "simulation-profile", s.SimulationProfile, "YAML file that describes the simulated GPUs; by default eight H100")
	flags.StringVar(&s.SimulationFaults, "simulation-faults", s.SimulationFaults, "YAML file with faults of the simulated GPUs, read again when it changes")
	flags.StringVar(&s.SimulatedNodes, "simulated-nodes", s.SimulatedNodes, simulatedNodes)
	flags.DurationVar(&s.PollDeadline, "poll-deadline", s.PollDeadline, "how long a call about a GPU may take before the GPU counts as hung")
	flags.StringVar(&s.XIDPolicy, "xid-policy", s.XIDPolicy, xidPolicy)
	flags.DurationVar(&s.RecoveryPeriod, "recovery-period", s.RecoveryPeriod, "how long a GPU must be without errors before it is healthy again")
	flags.IntVar(&s.Escalation.After, "escalate-after", s.Escalation.After,
		"how many faults of its own within the escalation window make a GPU unhealthy until it is reset, whatever the driver says; 0 for never")
	flags.DurationVar(&s.Escalation.Window, "escalation-window", s.Escalation.Window, "time in which faults are counted for --escalate-after")
}

// Simulated reports whether the GPUs are simulated.
func (s *Settings) Simulated() bool {
	return s.Source == SourceSimulated || s.SimulatedNodes != "" || (s.Source == sourceAuto && s.SimulationProfile != "")
}

// CompleteSettings checks the flags and derives the other settings from them.
func (s *Settings) CompleteSettings(problems *program.Problems) {
	s.check(problems)
	require := problems.Require
	var err error
	s.Policy, err = health.DefaultPolicy().With(s.XIDPolicy)
	require(err == nil, "--xid-policy: %w", err)
	s.Policy.RecoveryPeriod, s.Policy.Escalation = s.RecoveryPeriod, s.Escalation
	if s.Profile = simulation.Default(); s.SimulationProfile != "" {
		s.Profile, err = simulation.LoadProfile(s.SimulationProfile)
		require(err == nil, "--simulation-profile: %w", err)
	}
	if s.SimulatedNodes != "" {
		s.Fleet, err = simulation.LoadNodes(s.SimulatedNodes)
		require(err == nil, "--simulated-nodes: %w", err)
		require(err != nil || len(s.Fleet) > 0, "--simulated-nodes: the file has no nodes")
	}
}

// check checks each flag by itself.
func (s *Settings) check(problems *program.Problems) {
	problems.OneOf("source", s.Source, sourceAuto, SourceNVML, SourceSimulated)
	require := problems.Require
	require(s.Simulated() || s.SimulationFaults == "", "--simulation-faults: the GPUs are not simulated; add --source=simulated")
	require(s.Source != SourceNVML || s.SimulationProfile == "", "--simulation-profile: has no meaning with --source=nvml")
	require(s.Source != SourceNVML || s.SimulatedNodes == "", "--simulated-nodes: has no meaning with --source=nvml")
	require(s.PollDeadline > 0, "--poll-deadline=%v: must be greater than 0", s.PollDeadline)
	require(s.RecoveryPeriod >= 0, "--recovery-period=%v: must not be negative", s.RecoveryPeriod)
	require(s.Escalation.After >= 0 && s.Escalation.After <= health.MaxAfter,
		"--escalate-after=%d: must be between 0 and %d", s.Escalation.After, health.MaxAfter)
	require(s.Escalation.Window > 0, "--escalation-window=%v: must be greater than 0", s.Escalation.Window)
}
