// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"falldio.github.io/gpu-controller/nodeagent/hardware/settings"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
	"falldio.github.io/gpu-controller/pkg/endpoints"
	"falldio.github.io/gpu-controller/pkg/program"
)

// options are the driver's flags. Those that the node agent has, too, have the same names,
// meanings and defaults.
type options struct {
	program.Options
	// Settings say where the GPUs come from, and when they are healthy.
	settings.Settings
	kubeconfig   string
	nodeName     string
	impersonate  string
	pollInterval time.Duration

	model       string
	taintEffect string

	cdiSpecDir       string
	nvidia           nvidia.Options
	kubeletDirectory string
	bindAddress      string
	endpoints        endpoints.Options
}

func newOptions() *options {
	return &options{
		Options:          program.NewOptions(),
		Settings:         settings.Default(),
		pollInterval:     5 * time.Second,
		taintEffect:      string(resourceapi.DeviceTaintEffectNoSchedule),
		cdiSpecDir:       cdi.DefaultDir,
		nvidia:           nvidia.Options{HostRoot: "/"},
		kubeletDirectory: "/var/lib/kubelet",
		bindAddress:      "127.0.0.1:9839",
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
	o.endpoints.AddFlags(flags)
	flags.StringVar(&o.model, "gpu-model", o.model, "attribute model of the GPUs; by default it is made of what the driver says")
	flags.StringVar(&o.taintEffect, "taint-effect", o.taintEffect,
		"effect of the taint on an unhealthy GPU: NoSchedule (no claim gets it), or NoExecute (Pods that have it are evicted, too, unless their claims tolerate the taint)")
	flags.DurationVar(&o.pollInterval, "poll-interval", o.pollInterval, "time between two polls of the GPUs")
	o.Settings.AddFlags(flags,
		"YAML file with many nodes and their profiles: one process publishes the GPUs of those that have the label for it, but gives no containers any",
		"what XID errors do, where it differs from the default: see the node agent, which should have the same policy")
	flags.StringVar(&o.kubeletDirectory, "kubelet-directory", o.kubeletDirectory, "the kubelet's folder, with plugins, plugins_registry and pod-resources")
	flags.StringVar(&o.cdiSpecDir, "cdi-spec-dir", o.cdiSpecDir, "folder for the CDI specifications, the same on the node and for the driver")
	o.nvidia.AddFlags(flags)
	o.Options.AddFlags(flags)
	return flags
}

// complete validates the options and derives the others from them.
func (o *options) complete(args []string) error {
	var problems program.Problems
	require := problems.Require
	require(len(args) == 0, "unexpected arguments %q: all settings are flags", args)
	require(o.nodeName != "" || o.SimulatedNodes != "", "--node-name: must be given, or NODE_NAME be set")
	require(o.pollInterval > 0, "--poll-interval=%v: must be greater than 0", o.pollInterval)
	problems.OneOf("taint-effect", o.taintEffect, string(resourceapi.DeviceTaintEffectNoSchedule), string(resourceapi.DeviceTaintEffectNoExecute))
	for _, problem := range validation.IsValidLabelValue(o.model) {
		require(false, "--gpu-model=%s: %s", o.model, problem)
	}
	o.endpoints.Validate(require)
	problems.Absolute("kubelet-directory", o.kubeletDirectory)
	problems.Absolute("cdi-spec-dir", o.cdiSpecDir)
	o.nvidia.Check(&problems)
	o.CompleteSettings(&problems)
	return errors.Join(problems...)
}

// The folders below --kubelet-directory, and the socket in the last one.
func (o *options) registryDir() string { return filepath.Join(o.kubeletDirectory, "plugins_registry") }
func (o *options) pluginDir() string {
	return filepath.Join(o.kubeletDirectory, "plugins", driverName)
}
func (o *options) podResourcesSocket() string {
	return filepath.Join(o.kubeletDirectory, "pod-resources", "kubelet.sock")
}
