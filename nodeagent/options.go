// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	"falldio.github.io/gpu-controller/nodeagent/hardware/settings"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/resource"
	"falldio.github.io/gpu-controller/nodeagent/node/labels"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/program"
)

// options are the agent's flags.
type options struct {
	program.Options
	// Settings say where the GPUs come from, and when they are healthy.
	settings.Settings
	kubeconfig  string
	nodeName    string
	impersonate string

	pcieInterval time.Duration
	pollSchedule string
	// expectedGPUs is how many GPUs the node should have; 0 if that is not known.
	expectedGPUs int

	labels        labels.Options
	labelInterval time.Duration
	cleanUpOnExit bool

	bindAddress string
	endpoints   endpoints.Options
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
	// mig says what is done with GPUs in MIG mode, memoryLimits what limits the memory of containers
	// with shares.
	mig, memoryLimits string

	// variables are the environment variables that replace flags.
	variables map[string]string

	// Derived from the above by complete.
	schedule cron.Schedule
	served   []resource.Spec
}

// The values of --mode, of --mig, of --process-metrics (the GPUs of which processes are read), and of
// --share-memory-limits (who limits the memory of a container's control group to its share of a GPU).
const (
	modeFull           = "full"
	modeObserve        = "observe"
	migSlices          = "slices"
	migNone            = "none"
	processesShared    = "shared"
	processesAll       = "all"
	processesOff       = "off"
	memoryLimitsOff    = "off"
	memoryLimitsDriver = "driver"
)

func newOptions() *options {
	return &options{
		Options:          program.NewOptions(),
		Settings:         settings.Default(),
		pollSchedule:     "*/5 * * * * *",
		labelInterval:    time.Minute,
		bindAddress:      "127.0.0.1:9836",
		processMetrics:   processesShared,
		probing:          probingOptions{limit: 4, timeout: 10 * time.Second},
		injection:        injectionOptions{strategy: strategyAuto, cdiKind: cdi.Kind, cdiSpecDir: cdi.DefaultDir, nvidia: nvidia.Options{HostRoot: "/"}},
		mps:              mpsOptions{logDirectory: "/var/log/nvidia-mps", program: "nvidia-cuda-mps-control"},
		mig:              migSlices,
		memoryLimits:     memoryLimitsOff,
		mode:             modeFull,
		devicePlugin:     true,
		resources:        []string{string(v1.ResourceGPU)},
		kubeletDirectory: "/var/lib/kubelet",
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
	o.probing.addTo(flags)
	o.injection.addTo(flags)
	o.mps.addTo(flags)
	o.Options.AddFlags(flags)
	return flags
}

func (o *options) sourceFlags(flags *pflag.FlagSet) {
	o.Settings.AddFlags(flags,
		"YAML file with many nodes and their profiles: one process is the agent of each of them, without device plugins",
		"what XID errors do, where it differs from the default, for example 94=quiet,31=reset,default=quiet: ignore, quiet (unhealthy for the recovery period) or reset (and until the GPU was reset); by default 13, 31, 43, 45, 68, 109 and 154 are ignored and all others need a reset")
	flags.DurationVar(&o.pcieInterval, "pcie-interval", o.pcieInterval, "how often to measure the PCIe throughput, which takes 40 ms for each GPU; 0 for never")
	flags.StringVar(&o.pollSchedule, "poll-schedule", o.pollSchedule,
		"when to poll the GPUs, as cron has it, with seconds first; by default MONITOR_GPU_INTERVAL_PATTERN or every 5 seconds")
	flags.IntVar(&o.expectedGPUs, "expected-gpus", o.expectedGPUs,
		"how many GPUs the node should have: if fewer are found, it is degraded; 0 to compare with the PCI bus only")
}

func (o *options) publishFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.labels.Model, "gpu-model", o.labels.Model, "value of the label falldio.com/gpu; by default it is made of what the driver says")
	flags.DurationVar(&o.labelInterval, "label-interval", o.labelInterval, "minimum time between two writes of the Node's labels; changes of the GPUs' number and health do not wait")
	flags.BoolVar(&o.cleanUpOnExit, "clean-up-on-exit", o.cleanUpOnExit, "remove labels, annotation and condition from the Node on exit")
	flags.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "address of /metrics, /healthz, /readyz and /probe; 0 for none")
	o.endpoints.AddFlags(flags)
	flags.BoolVar(&o.dcgmNames, "dcgm-names", o.dcgmNames, "export metrics under the names of NVIDIA's dcgm-exporter as well")
	flags.StringVar(&o.processMetrics, "process-metrics", o.processMetrics,
		"of which GPUs to measure what each container uses: shared (by several containers, or given out in shares), all (that containers hold), or off; the agent must see the node's processes (hostPID)")
}

func (o *options) pluginFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.mode, "mode", o.mode,
		"full: the agent gives out the GPUs, as the kubelet's device plugin; observe: NVIDIA's device plugin or DRA driver does, and the agent tells the scheduler who holds which")
	flags.BoolVar(&o.devicePlugin, "device-plugin", o.devicePlugin, "talk to the kubelet: without it, the agent neither gives out GPUs nor knows who holds them")
	flags.StringArrayVar(&o.resources, "resource", o.resources,
		"resource to serve, NAME=SOURCE[,env=VARIABLE], repeated for several; the source is gpus, shares (of the GPUs), simulated:COUNT or none; by default the environment variable resourcename. falldio.com/gpu brings falldio.com/gpu-percent=shares along; falldio.com/gpu-percent=none prevents that")
	flags.StringVar(&o.kubeletDirectory, "kubelet-directory", o.kubeletDirectory, "the kubelet's folder, with device-plugins and pod-resources")
	flags.StringVar(&o.mig, "mig", o.mig,
		"what to do with GPUs in MIG mode: slices: give out their slices, as falldio.com/mig-1g.10gb and so on, where falldio.com/gpu is served; none: leave them alone")
	// Off by default, since containers with shares would not start on a node where NVIDIA's hook fails.
	flags.StringVar(&o.memoryLimits, "share-memory-limits", o.memoryLimits,
		"what limits the GPU memory that a container with a share can use, all its processes together: off (nothing), or driver: NVIDIA's driver from r615 on, for the container's control group (version 2); it needs cdi-cri and NVIDIA's Container Toolkit from 1.20 on")
}

// complete validates the options and derives the others from them.
func (o *options) complete(args []string) error {
	var problems program.Problems
	require := problems.Require
	require(len(args) == 0, "unexpected arguments %q: all settings are flags", args)
	require(o.nodeName != "" || o.SimulatedNodes != "", "--node-name: must be given, or NODE_NAME be set")
	problems.OneOf("mode", o.mode, modeFull, modeObserve)
	problems.OneOf("process-metrics", o.processMetrics, processesShared, processesAll, processesOff)
	problems.OneOf("mig", o.mig, migSlices, migNone)
	problems.OneOf("share-memory-limits", o.memoryLimits, memoryLimitsOff, memoryLimitsDriver)
	require(o.mode == modeFull || o.devicePlugin, "--mode=%s: the kubelet says who holds which GPU; it is not asked with --device-plugin=false", modeObserve)
	require(o.expectedGPUs >= 0, "--expected-gpus=%d: must not be negative", o.expectedGPUs)
	require(o.expectedGPUs == 0 || o.SimulatedNodes == "", "--expected-gpus: has no meaning with --simulated-nodes, which may have different numbers of GPUs")
	require(o.pcieInterval >= 0, "--pcie-interval=%v: must not be negative", o.pcieInterval)
	o.endpoints.Validate(require)
	problems.Absolute("kubelet-directory", o.kubeletDirectory)
	require(o.labelInterval >= 0, "--label-interval=%v: must not be negative", o.labelInterval)
	for _, problem := range validation.IsValidLabelValue(o.labels.Model) {
		require(false, "--gpu-model=%s: %s", o.labels.Model, problem)
	}
	err := o.completeSchedule()
	require(err == nil, "%s: %w", o.settingName("poll-schedule"), err)
	err = o.completeResources()
	require(err == nil, "%s: %w", o.settingName("resource"), err)
	o.CompleteSettings(&problems)
	o.injection.validate(&problems)
	o.mps.validate(&problems)
	return errors.Join(append(problems, o.probing.complete(o.SimulatedNodes != ""))...)
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
	if o.Simulated() {
		return cmp.Or(o.injection.visibleDevices, simulatedVariable)
	}
	return cmp.Or(o.injection.visibleDevices, nvidiaVariable)
}
