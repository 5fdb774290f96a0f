// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	logsapi "k8s.io/component-base/logs/api/v1"

	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/resource"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// options are the agent's flags.
type options struct {
	printVersion bool
	kubeconfig   string
	nodeName     string
	impersonate  string

	source            string
	nvmlLibrary       string
	pcieInterval      time.Duration
	simulationProfile string
	simulationFaults  string
	simulatedNodes    string

	pollSchedule   string
	pollDeadline   time.Duration
	xidPolicy      string
	recoveryPeriod time.Duration
	health         healthOptions

	labels        labels.Options
	labelInterval time.Duration
	cleanUpOnExit bool

	bindAddress string
	dcgmNames   bool
	// processMetrics says of which GPUs the processes are read.
	processMetrics string
	probing        probingOptions
	injection      injectionOptions

	mode             string
	devicePlugin     bool
	resources        []string
	kubeletDirectory string
	mps              mpsOptions
	mig              migOptions
	// memoryLimits says what limits the memory of containers with shares.
	memoryLimits string

	logging *logsapi.LoggingConfiguration

	// Derived from the above by complete.
	policy health.Policy
	// variables are the environment variables that replace flags.
	variables map[string]string

	schedule cron.Schedule
	served   []resource.Spec
	profile  *simulation.Profile
	fleet    []simulation.Node
}

// The values of --mode.
const (
	modeFull    = "full"
	modeObserve = "observe"
)

// The values of --source.
const (
	sourceAuto      = "auto"
	sourceNVML      = "nvml"
	sourceSimulated = "simulated"
)

func newOptions() *options {
	return &options{
		source:           sourceAuto,
		pollSchedule:     "*/5 * * * * *",
		pollDeadline:     10 * time.Second,
		recoveryPeriod:   health.DefaultPolicy().RecoveryPeriod,
		health:           newHealthOptions(),
		labelInterval:    time.Minute,
		bindAddress:      "127.0.0.1:9836",
		processMetrics:   processesShared,
		probing:          newProbingOptions(),
		injection:        newInjectionOptions(),
		mps:              newMPSOptions(),
		mig:              newMIGOptions(),
		memoryLimits:     memoryLimitsOff,
		mode:             modeFull,
		devicePlugin:     true,
		resources:        []string{string(v1.ResourceGPU)},
		kubeletDirectory: "/var/lib/kubelet",
		logging:          logsapi.NewLoggingConfiguration(),
		variables:        map[string]string{},
	}
}

func (o *options) flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("nodeagent", pflag.ContinueOnError)
	flags.SortFlags = true
	flags.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"kubeconfig file; without it KUBECONFIG, then ~/.kube/config, then the service account inside a cluster are used")
	flags.StringVar(&o.nodeName, "node-name", o.nodeName, "name of the Node; by default NODE_NAME")
	flags.StringVar(&o.impersonate, "as", o.impersonate,
		"user to act as, as a token that is bound to the Node would; for tests of the agent's rights with credentials that may impersonate")
	o.sourceFlags(flags)
	o.publishFlags(flags)
	o.pluginFlags(flags)
	addProcessMetrics(&o.processMetrics, flags)
	o.probing.addTo(flags)
	o.injection.addTo(flags)
	o.mps.addTo(flags)
	o.mig.addTo(flags)
	addMemoryLimits(&o.memoryLimits, flags)
	o.health.addTo(flags)
	logsapi.AddFlags(o.logging, flags)
	flags.BoolVar(&o.printVersion, "version", o.printVersion, "print the version and exit")
	return flags
}

func (o *options) sourceFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.source, "source", o.source,
		"where the GPUs come from: nvml, simulated, or auto: simulated if a profile is given, else nvml")
	flags.StringVar(&o.nvmlLibrary, "nvml-library", o.nvmlLibrary, "path of libnvidia-ml.so.1; by default the dynamic linker finds it")
	flags.DurationVar(&o.pcieInterval, "pcie-interval", o.pcieInterval, "how often to measure the PCIe throughput, which takes 40 ms for each GPU; 0 for never")
	flags.StringVar(&o.simulationProfile, "simulation-profile", o.simulationProfile, "YAML file that describes the simulated GPUs; by default eight H100")
	flags.StringVar(&o.simulationFaults, "simulation-faults", o.simulationFaults, "YAML file with faults of the simulated GPUs, read again when it changes")
	flags.StringVar(&o.simulatedNodes, "simulated-nodes", o.simulatedNodes,
		"YAML file with many nodes and their profiles: one process is the agent of each of them, without device plugins")
	flags.StringVar(&o.pollSchedule, "poll-schedule", o.pollSchedule,
		"when to poll the GPUs, as cron has it, with seconds first; by default MONITOR_GPU_INTERVAL_PATTERN or every 5 seconds")
	flags.DurationVar(&o.pollDeadline, "poll-deadline", o.pollDeadline, "how long a call about a GPU may take before the GPU counts as hung")
	flags.StringVar(&o.xidPolicy, "xid-policy", o.xidPolicy,
		"what XID errors do, where it differs from the default, for example 94=quiet,31=reset,default=quiet: ignore, quiet (unhealthy for the recovery period) or reset (and until the GPU was reset); by default 13, 31, 43, 45, 68, 109 and 154 are ignored and all others need a reset")
	flags.DurationVar(&o.recoveryPeriod, "recovery-period", o.recoveryPeriod, "how long a GPU must be without errors before it is healthy again")
}

func (o *options) publishFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.labels.Model, "gpu-model", o.labels.Model, "value of the label falldio.com/gpu; by default it is made of what the driver says")
	flags.DurationVar(&o.labelInterval, "label-interval", o.labelInterval, "minimum time between two writes of the Node's labels; changes of the GPUs' number and health do not wait")
	flags.BoolVar(&o.cleanUpOnExit, "clean-up-on-exit", o.cleanUpOnExit, "remove labels, annotation and condition from the Node on exit")
	flags.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "address of /metrics, /healthz, /readyz and /probe; 0 for none")
	flags.BoolVar(&o.dcgmNames, "dcgm-names", o.dcgmNames, "export metrics under the names of NVIDIA's dcgm-exporter as well")
}

func (o *options) pluginFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.mode, "mode", o.mode,
		"full: the agent gives out the GPUs, as the kubelet's device plugin; observe: NVIDIA's device plugin or DRA driver does, and the agent tells the scheduler who holds which")
	flags.BoolVar(&o.devicePlugin, "device-plugin", o.devicePlugin, "talk to the kubelet: without it, the agent neither gives out GPUs nor knows who holds them")
	flags.StringArrayVar(&o.resources, "resource", o.resources,
		"resource to serve, NAME=SOURCE[,env=VARIABLE], repeated for several; the source is gpus, shares (of the GPUs), simulated:COUNT or none; by default the environment variable resourcename. falldio.com/gpu brings falldio.com/gpu-percent=shares along; falldio.com/gpu-percent=none prevents that")
	flags.StringVar(&o.kubeletDirectory, "kubelet-directory", o.kubeletDirectory, "the kubelet's folder, with device-plugins and pod-resources")
}

// complete validates the options and derives the others from them.
func (o *options) complete(args []string) error {
	var problems []error
	require := func(holds bool, format string, values ...any) {
		if !holds {
			problems = append(problems, fmt.Errorf(format, values...))
		}
	}
	note := func(flag string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", o.settingName(flag), err))
		}
	}
	require(len(args) == 0, "unexpected arguments %q: all settings are flags", args)
	require(o.nodeName != "" || o.simulatedNodes != "", "--node-name: must be given, or NODE_NAME be set")
	require(o.mode == modeFull || o.mode == modeObserve, "--mode=%s: must be %s or %s", o.mode, modeFull, modeObserve)
	require(o.mode == modeFull || o.devicePlugin, "--mode=%s: the kubelet says who holds which GPU; it is not asked with --device-plugin=false", modeObserve)
	require(o.source == sourceAuto || o.source == sourceNVML || o.source == sourceSimulated,
		"--source=%s: must be %s, %s or %s", o.source, sourceAuto, sourceNVML, sourceSimulated)
	require(o.pollDeadline > 0, "--poll-deadline=%v: must be greater than 0", o.pollDeadline)
	require(o.pcieInterval >= 0, "--pcie-interval=%v: must not be negative", o.pcieInterval)
	require(o.recoveryPeriod >= 0, "--recovery-period=%v: must not be negative", o.recoveryPeriod)
	require(o.simulated() || o.simulationFaults == "", "--simulation-faults: the GPUs are not simulated; add --source=simulated")
	require(o.source != sourceNVML || o.simulationProfile == "", "--simulation-profile: has no meaning with --source=nvml")
	require(o.source != sourceNVML || o.simulatedNodes == "", "--simulated-nodes: has no meaning with --source=nvml")
	require(filepath.IsAbs(o.kubeletDirectory), "--kubelet-directory=%s: must be an absolute path", o.kubeletDirectory)
	require(o.labelInterval >= 0, "--label-interval=%v: must not be negative", o.labelInterval)
	for _, problem := range validation.IsValidLabelValue(o.labels.Model) {
		require(false, "--gpu-model=%s: %s", o.labels.Model, problem)
	}
	note("poll-schedule", o.completeSchedule())
	note("xid-policy", o.completePolicy())
	note("resource", o.completeResources())
	note("simulation-profile", o.completeProfile())
	note("simulated-nodes", o.completeFleet())
	problems = append(problems, o.probing.complete(o.simulatedNodes != ""), o.injection.validate(), o.mps.validate(), o.mig.validate(), validateProcessMetrics(o.processMetrics), validateMemoryLimits(o.memoryLimits), o.health.validate(o.simulatedNodes != ""))
	return errors.Join(problems...)
}

// scheduleParser parses the specs of the agent's first version, "*/5 * * * * ?", and
// descriptors, "@every 5s".
var scheduleParser = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func (o *options) completeSchedule() (err error) {
	zoned := strings.HasPrefix(o.pollSchedule, "TZ=") || strings.HasPrefix(o.pollSchedule, "CRON_TZ=")
	if zoned && !strings.Contains(o.pollSchedule, " ") { // the parser would panic
		return fmt.Errorf("%q: there is only a time zone", o.pollSchedule)
	}
	o.schedule, err = scheduleParser.Parse(o.pollSchedule)
	if err == nil && o.schedule.Next(time.Unix(0, 0)).IsZero() {
		return fmt.Errorf("%q: the schedule never fires", o.pollSchedule)
	}
	return err
}

func (o *options) completePolicy() (err error) {
	o.policy, err = health.DefaultPolicy().With(o.xidPolicy)
	o.policy.RecoveryPeriod, o.policy.Escalation = o.recoveryPeriod, o.health.escalation
	return err
}

func (o *options) completeResources() (err error) {
	o.served, err = resource.ParseAll(o.resources, o.gpuVariable())
	if o.mode == modeObserve {
		o.served = slices.DeleteFunc(o.served, func(spec resource.Spec) bool { return spec.Kind.OfGPUs() })
	}
	return err
}

// The environment variables for a container's GPUs. With NVIDIA's, NVIDIA's runtime would look
// for simulated GPUs, and fail.
const (
	nvidiaVariable    = "NVIDIA_VISIBLE_DEVICES"
	simulatedVariable = "FALLDIO_VISIBLE_DEVICES"
)

func (o *options) gpuVariable() string {
	switch {
	case o.injection.visibleDevices != "":
		return o.injection.visibleDevices
	case o.simulated():
		return simulatedVariable
	default:
		return nvidiaVariable
	}
}

func (o *options) completeProfile() (err error) {
	if o.simulationProfile == "" {
		o.profile = simulation.Default()
		return nil
	}
	o.profile, err = simulation.LoadProfile(o.simulationProfile)
	return err
}

func (o *options) completeFleet() (err error) {
	if o.simulatedNodes == "" {
		return nil
	}
	o.fleet, err = simulation.LoadNodes(o.simulatedNodes)
	if err == nil && len(o.fleet) == 0 {
		return errors.New("the file has no nodes")
	}
	return err
}

// simulated reports whether the GPUs are simulated.
func (o *options) simulated() bool {
	return o.source == sourceSimulated || o.simulatedNodes != "" || (o.source == sourceAuto && o.simulationProfile != "")
}
