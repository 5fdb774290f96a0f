// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentbaseconfig "k8s.io/component-base/config"
	leaderelectionoptions "k8s.io/component-base/config/options"

	"falldio.github.io/gpu-controller/accounting"
	"falldio.github.io/gpu-controller/admissioncheck"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/program"
	"falldio.github.io/gpu-controller/pkg/restconfig"
	"falldio.github.io/gpu-controller/queues"
	"falldio.github.io/gpu-controller/remediation"
	"falldio.github.io/gpu-controller/rescheduler"
)

// options are the controller's flags.
type options struct {
	program.Options
	kubeconfig         string
	namespace          string
	workers            int
	qps                float32
	burst              int
	metricsBindAddress string
	endpoints          endpoints.Options
	rescheduling       rescheduler.Options
	gpuFit             admissioncheck.Options
	queues             queues.Options
	accounting         accounting.Options
	remediation        remediation.Options
	tasks              gputask.Config
	// defaultTTL is --default-ttl-seconds-after-finished; noTTL for none.
	defaultTTL int32
	// unreachableNodeTimeout is --default-unreachable-node-timeout-seconds; 0 for none.
	unreachableNodeTimeout int32
	// startTimeout is --default-start-timeout-seconds; 0 for none.
	startTimeout   int32
	leaderElection componentbaseconfig.LeaderElectionConfiguration
}

const (
	// leaseName is the name of the lease of a controller of all namespaces.
	leaseName = "gpu-controller"
	// noTTL keeps finished tasks that specify nothing else.
	noTTL = -1
)

func newOptions() *options {
	return &options{
		Options:            program.NewOptions(),
		workers:            8,
		qps:                2000,
		burst:              4000,
		metricsBindAddress: "127.0.0.1:8080",
		tasks: gputask.Config{
			Pods:    gputask.PodDefaults{Image: "nvcr.io/nvidia/cuda:12.8.1-base-ubuntu24.04", GPUResource: v1.ResourceGPU},
			Backoff: gputask.Backoff{Base: 10 * time.Second, Max: 10 * time.Minute},
		},
		defaultTTL:   noTTL,
		rescheduling: rescheduler.DefaultOptions(),
		gpuFit:       admissioncheck.DefaultOptions(),
		queues:       queues.DefaultOptions(),
		accounting:   accounting.DefaultOptions(),
		remediation:  remediation.DefaultOptions(),
		leaderElection: componentbaseconfig.LeaderElectionConfiguration{
			LeaderElect:       true,
			LeaseDuration:     metav1.Duration{Duration: 15 * time.Second},
			RenewDeadline:     metav1.Duration{Duration: 10 * time.Second},
			RetryPeriod:       metav1.Duration{Duration: 2 * time.Second},
			ResourceLock:      resourcelock.LeasesResourceLock,
			ResourceName:      leaseName,
			ResourceNamespace: "gpu-controller-system",
		},
	}
}

// addOwnFlags adds the flags that are not those of components.
func (o *options) addOwnFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig,
		"kubeconfig file; without it KUBECONFIG, then ~/.kube/config, then the service account inside a cluster are used")
	flags.StringVar(&o.namespace, "namespace", o.namespace,
		"only handle GPUTasks of this namespace; empty for all namespaces")
	flags.IntVar(&o.workers, "workers", o.workers, "number of GPUTasks handled at the same time")
	flags.Float32Var(&o.qps, "kube-api-qps", o.qps, "requests per second to the API server")
	flags.IntVar(&o.burst, "kube-api-burst", o.burst, "requests to the API server in a burst")
	flags.StringVar(&o.metricsBindAddress, "metrics-bind-address", o.metricsBindAddress,
		"address of /metrics, /healthz and /readyz; 0 for none")
	o.endpoints.AddFlags(flags)
	flags.StringVar(&o.tasks.Pods.Image, "default-image", o.tasks.Pods.Image,
		"image of the task's container if the GPUTask names none")
	flags.StringVar(&o.tasks.Pods.SchedulerName, "default-scheduler", o.tasks.Pods.SchedulerName,
		"schedulerName of Pods whose template names none; empty for the cluster's default")
	flags.StringVar((*string)(&o.tasks.Pods.GPUResource), "gpu-resource", string(o.tasks.Pods.GPUResource),
		"extended resource by which new Pods request whole GPUs: falldio.com/gpu, or nvidia.com/gpu where NVIDIA's device plugin gives them out (nodeagent --mode=observe); MIG slices are requested from the same")
	flags.DurationVar(&o.tasks.Backoff.Base, "retry-backoff", o.tasks.Backoff.Base,
		"delay before the first restart of a failed task; doubles with every failure")
	flags.DurationVar(&o.tasks.Backoff.Max, "max-retry-backoff", o.tasks.Backoff.Max,
		"maximum delay before a restart")
	flags.Int32Var(&o.defaultTTL, "default-ttl-seconds-after-finished", o.defaultTTL,
		"seconds after which finished GPUTasks that specify none are deleted with their Pods; -1 for never")
	flags.Int32Var(&o.unreachableNodeTimeout, "default-unreachable-node-timeout-seconds", o.unreachableNodeTimeout,
		"seconds that a node must have been unreachable before terminating Pods on it are deleted by force, for GPUTasks that specify none; such a Pod may then run twice; 0 for never")
	flags.Int32Var(&o.startTimeout, "default-start-timeout-seconds", o.startTimeout,
		"seconds that Pods may take to start once they have nodes, for GPUTasks that specify none; after that, they release their GPUs and are retried later; 0 for no limit")
	leaderelectionoptions.BindLeaderElectionFlags(&o.leaderElection, flags)
	o.AddFlags(flags)
}

// check calls require with each condition of the options that is not about a component alone, and the error
// if it does not hold.
func (o *options) check(args []string, require func(holds bool, format string, values ...any)) {
	require(len(args) == 0, "unexpected arguments %q: all settings are flags", args)
	require(o.workers > 0, "--workers=%d: must be at least 1", o.workers)
	require(o.qps > 0, "--kube-api-qps=%v: must be greater than 0", o.qps)
	o.endpoints.Validate(require)
	require(o.burst > 0, "--kube-api-burst=%d: must be at least 1", o.burst)
	require(!o.gpuFit.Enabled || o.namespace == "", "--kueue-gpu-fit: the check is about the Workloads of all namespaces: leave out --namespace=%s", o.namespace)
	require(o.remediation.Effect == "" || o.namespace == "", "--taint-unhealthy-gpus=%s: Nodes belong to no namespace: leave out --namespace=%s", o.remediation.Effect, o.namespace)
	require(o.tasks.Pods.Image != "", "--default-image: must not be empty")
	require(o.tasks.Pods.GPUResource == v1.ResourceGPU || o.tasks.Pods.GPUResource == v1.ResourceNVIDIAGPU,
		"--gpu-resource=%s: must be %s or %s", o.tasks.Pods.GPUResource, v1.ResourceGPU, v1.ResourceNVIDIAGPU)
	require(o.tasks.Backoff.Base > 0, "--retry-backoff=%v: must be greater than 0", o.tasks.Backoff.Base)
	require(o.tasks.Backoff.Max >= o.tasks.Backoff.Base, "--max-retry-backoff=%v: must not be less than --retry-backoff=%v", o.tasks.Backoff.Max, o.tasks.Backoff.Base)
	require(o.defaultTTL >= noTTL, "--default-ttl-seconds-after-finished=%d: must not be negative, except -1 for never", o.defaultTTL)
	require(o.unreachableNodeTimeout >= 0, "--default-unreachable-node-timeout-seconds=%d: must not be negative", o.unreachableNodeTimeout)
	require(o.startTimeout >= 0, "--default-start-timeout-seconds=%d: must not be negative", o.startTimeout)
}

// taskConfig returns the settings that apply to all tasks.
func (o *options) taskConfig() gputask.Config {
	config := o.tasks
	if o.defaultTTL != noTTL {
		config.TTLSecondsAfterFinished = &o.defaultTTL
	}
	if o.unreachableNodeTimeout > 0 {
		config.UnreachableNodeTimeoutSeconds = &o.unreachableNodeTimeout
	}
	if o.startTimeout > 0 {
		config.StartTimeoutSeconds = &o.startTimeout
	}
	return config
}

// election returns the settings of the leader election. A controller of one namespace has a lease
// of its own: it must not wait for the controller of another.
func (o *options) election() componentbaseconfig.LeaderElectionConfiguration {
	settings := o.leaderElection
	if o.namespace != "" && settings.ResourceName == leaseName {
		settings.ResourceName += "-" + o.namespace
	}
	return settings
}

// restConfig returns the connection to the API server.
func (o *options) restConfig() (*rest.Config, error) {
	config, err := restconfig.Load(o.kubeconfig, "gpu-controller")
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = o.qps, o.burst
	return config, nil
}
