// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi/nvidia"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/resource"
	"falldio.github.io/gpu-controller/pkg/program"
)

// The values of --device-list-strategy, named as in NVIDIA's device plugin.
const (
	strategyAuto   = "auto"
	strategyCDI    = "cdi-cri"
	strategyEnvVar = "envvar"
)

// injectionOptions are the flags about how containers get access to their GPUs.
type injectionOptions struct {
	strategy       string
	visibleDevices string
	cdiKind        string
	cdiSpecDir     string
	nvidia         nvidia.Options
}

func (o *injectionOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.strategy, "device-list-strategy", o.strategy,
		"how containers get their GPUs: cdi-cri (the container runtime adds them, as a CDI specification describes them), envvar (NVIDIA's container runtime adds those in an environment variable, which a Pod can override), or auto: cdi-cri if the container runtime is known to support it, else envvar")
	flags.StringVar(&o.visibleDevices, "visible-devices-env", o.visibleDevices,
		"environment variable that lists a container's GPUs, for envvar; by default NVIDIA_VISIBLE_DEVICES, and FALLDIO_VISIBLE_DEVICES for simulated GPUs")
	flags.StringVar(&o.cdiKind, "cdi-kind", o.cdiKind,
		"kind of the CDI devices, for cdi-cri. The agent describes those of "+cdi.Kind+"; with another kind, such as nvidia.com/gpu, somebody else must have described the GPUs, by their UUIDs")
	flags.StringVar(&o.cdiSpecDir, "cdi-spec-dir", o.cdiSpecDir, "folder for the CDI specification, the same on the node and for the agent")
	o.nvidia.AddFlags(flags)
}

// cdiKinds matches the kinds of devices that CDI allows:
// https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
var cdiKinds = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?$`)

func (o *injectionOptions) validate(problems *program.Problems) {
	require := problems.Require
	problems.OneOf("device-list-strategy", o.strategy, strategyAuto, strategyCDI, strategyEnvVar)
	require(o.visibleDevices == "" || resource.IsVariable(o.visibleDevices), "--visible-devices-env=%s: must be the name of an environment variable", o.visibleDevices)
	require(cdiKinds.MatchString(o.cdiKind), "--cdi-kind=%s: must be a vendor and a class, for example nvidia.com/gpu", o.cdiKind)
	require(o.cdiKind == cdi.Kind || o.strategy != strategyEnvVar, "--cdi-kind=%s: has no meaning with --device-list-strategy=%s", o.cdiKind, strategyEnvVar)
	problems.Absolute("cdi-spec-dir", o.cdiSpecDir)
	o.nvidia.Check(problems)
}
