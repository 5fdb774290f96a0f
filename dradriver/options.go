// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	logsapi "k8s.io/component-base/logs/api/v1"

	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
)

// options are the driver's flags. Those that the node agent has, too, have the same names,
// meanings and defaults.
type options struct {
	printVersion bool
	kubeconfig   string
	nodeName     string
	impersonate  string

	source            string
	nvmlLibrary       string
	simulationProfile string
	simulationFaults  string
	simulatedNodes    string

	pollInterval   time.Duration
	pollDeadline   time.Duration
	xidPolicy      string
	recoveryPeriod time.Duration
	escalation     health.Escalation

	model       string
	taintEffect string

	cdiSpecDir       string
	nvidia           nvidia.Options
	kubeletDirectory string
	bindAddress      string

	logging *logsapi.LoggingConfiguration

	// Derived from the above by complete.
	policy  health.Policy
	profile *simulation.Profile
	fleet   []simulation.Node
}

// The values of --source.
const (
	sourceAuto      = "auto"
	sourceNVML      = "nvml"
	sourceSimulated = "simulated"
)

func newOptions() *options {
	return &options{
		source:           sourceAuto,
		pollInterval:     5 * time.Second,
		pollDeadline:     10 * time.Second,
		recoveryPeriod:   health.DefaultPolicy().RecoveryPeriod,
		escalation:       health.DefaultPolicy().Escalation,
		taintEffect:      string(resourceapi.DeviceTaintEffectNoSchedule),
		cdiSpecDir:       cdi.DefaultDir,
		nvidia:           nvidia.Options{HostRoot: "/"},
		kubeletDirectory: "/var/lib/kubelet",
		bindAddress:      "127.0.0.1:9839",
		logging:          logsapi.NewLoggingConfiguration(),
	}
}

func (o *options) flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("dradriver", pflag.ContinueOnError)
	flags.SortFlags = true
	flags.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"kubeconfig file; without it KUBECONFIG, then ~/.kube/config, then the service account inside a cluster are used")
	flags.StringVar(&o.nodeName, "node-name", o.nodeName, "name of the Node; by default NODE_NAME")
	flags.StringVar(&o.impersonate, "as", o.impersonate,
		"user to act as, as a token that is bound to the Node would; for tests of the driver's rights with credentials that may impersonate")
	flags.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "address of /metrics, /healthz and /readyz; 0 for none")
	flags.StringVar(&o.model, "gpu-model", o.model, "attribute model of the GPUs; by default it is made of what the driver says")
	flags.StringVar(&o.taintEffect, "taint-effect", o.taintEffect,
		"effect of the taint on an unhealthy GPU: NoSchedule (no claim gets it), or NoExecute (Pods that have it are evicted, too, unless their claims tolerate the taint)")
	o.sourceFlags(flags)
	o.nodeFlags(flags)
	logsapi.AddFlags(o.logging, flags)
	flags.BoolVar(&o.printVersion, "version", o.printVersion, "print the version and exit")
	return flags
}

func (o *options) sourceFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.source, "source", o.source,
		"where the GPUs come from: nvml, simulated, or auto: simulated if a profile is given, else nvml")
	flags.StringVar(&o.nvmlLibrary, "nvml-library", o.nvmlLibrary, "path of libnvidia-ml.so.1; by default the dynamic linker finds it")
	flags.StringVar(&o.simulationProfile, "simulation-profile", o.simulationProfile, "YAML file that describes the simulated GPUs; by default eight H100")
	flags.StringVar(&o.simulationFaults, "simulation-faults", o.simulationFaults, "YAML file with faults of the simulated GPUs, read again when it changes")
	flags.StringVar(&o.simulatedNodes, "simulated-nodes", o.simulatedNodes,
		"YAML file with many nodes and their profiles: one process publishes the GPUs of those that have the label for it, but gives no containers any")
	flags.DurationVar(&o.pollInterval, "poll-interval", o.pollInterval, "time between two polls of the GPUs")
	flags.DurationVar(&o.pollDeadline, "poll-deadline", o.pollDeadline, "how long a call about a GPU may take before the GPU counts as hung")
	flags.StringVar(&o.xidPolicy, "xid-policy", o.xidPolicy, "what XID errors do, where it differs from the default: see the node agent, which should have the same policy")
	flags.DurationVar(&o.recoveryPeriod, "recovery-period", o.recoveryPeriod, "how long a GPU must be without errors before it is healthy again")
	flags.IntVar(&o.escalation.After, "escalate-after", o.escalation.After,
		"how many faults of its own within the escalation window make a GPU unhealthy until it is reset, whatever the driver says; 0 for never")
	flags.DurationVar(&o.escalation.Window, "escalation-window", o.escalation.Window, "time in which faults are counted for --escalate-after")
}

func (o *options) nodeFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeletDirectory, "kubelet-directory", o.kubeletDirectory, "the kubelet's folder, with plugins, plugins_registry and pod-resources")
	flags.StringVar(&o.cdiSpecDir, "cdi-spec-dir", o.cdiSpecDir, "folder for the CDI specifications, the same on the node and for the driver")
	o.nvidia.AddFlags(flags)
}

// complete validates the options and derives the others from them.
func (o *options) complete(args []string) error {
	problems := o.mistakes(args)
	note := func(flag string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	var err error
	o.policy, err = health.DefaultPolicy().With(o.xidPolicy)
	note("xid-policy", err)
	o.policy.RecoveryPeriod, o.policy.Escalation = o.recoveryPeriod, o.escalation
	if o.profile = simulation.Default(); o.simulationProfile != "" {
		o.profile, err = simulation.LoadProfile(o.simulationProfile)
		note("simulation-profile", err)
	}
	if o.simulatedNodes != "" {
		o.fleet, err = simulation.LoadNodes(o.simulatedNodes)
		note("simulated-nodes", err)
	}
	return errors.Join(problems...)
}

// mistakes returns what is wrong with single options.
func (o *options) mistakes(args []string) []error {
	var problems []error
	require := func(holds bool, format string, values ...any) {
		if !holds {
			problems = append(problems, fmt.Errorf(format, values...))
		}
	}
	require(len(args) == 0, "unexpected arguments %q: all settings are flags", args)
	require(o.nodeName != "" || o.simulatedNodes != "", "--node-name: must be given, or NODE_NAME be set")
	require(o.source == sourceAuto || o.source == sourceNVML || o.source == sourceSimulated,
		"--source=%s: must be %s, %s or %s", o.source, sourceAuto, sourceNVML, sourceSimulated)
	require(o.pollInterval > 0, "--poll-interval=%v: must be greater than 0", o.pollInterval)
	require(o.pollDeadline > 0, "--poll-deadline=%v: must be greater than 0", o.pollDeadline)
	require(o.recoveryPeriod >= 0, "--recovery-period=%v: must not be negative", o.recoveryPeriod)
	require(o.escalation.After >= 0 && o.escalation.After <= health.MaxAfter,
		"--escalate-after=%d: must be between 0 and %d", o.escalation.After, health.MaxAfter)
	require(o.escalation.Window > 0, "--escalation-window=%v: must be greater than 0", o.escalation.Window)
	require(o.simulated() || o.simulationFaults == "", "--simulation-faults: the GPUs are not simulated; add --source=simulated")
	require(o.source != sourceNVML || o.simulationProfile == "", "--simulation-profile: has no meaning with --source=nvml")
	require(o.source != sourceNVML || o.simulatedNodes == "", "--simulated-nodes: has no meaning with --source=nvml")
	effect := resourceapi.DeviceTaintEffect(o.taintEffect)
	require(effect == resourceapi.DeviceTaintEffectNoSchedule || effect == resourceapi.DeviceTaintEffectNoExecute,
		"--taint-effect=%s: must be %s or %s", o.taintEffect, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute)
	for _, problem := range validation.IsValidLabelValue(o.model) {
		require(false, "--gpu-model=%s: %s", o.model, problem)
	}
	for flag, path := range map[string]string{"kubelet-directory": o.kubeletDirectory, "cdi-spec-dir": o.cdiSpecDir, "host-root": o.nvidia.HostRoot} {
		require(filepath.IsAbs(path), "--%s=%s: must be an absolute path", flag, path)
	}
	for flag, path := range map[string]string{"nvidia-driver-root": o.nvidia.DriverRoot, "nvidia-cdi-hook-path": o.nvidia.HookPath} {
		require(path == "" || filepath.IsAbs(path), "--%s=%s: must be an absolute path", flag, path)
	}
	return problems
}

// simulated reports whether the GPUs are simulated.
func (o *options) simulated() bool {
	return o.source == sourceSimulated || o.simulatedNodes != "" || (o.source == sourceAuto && o.simulationProfile != "")
}

// The folders below --kubelet-directory, and the socket in the last one.
func (o *options) registryDir() string { return filepath.Join(o.kubeletDirectory, "plugins_registry") }
func (o *options) pluginDir() string {
	return filepath.Join(o.kubeletDirectory, "plugins", driverName)
}
func (o *options) podResourcesSocket() string {
	return filepath.Join(o.kubeletDirectory, "pod-resources", "kubelet.sock")
}
