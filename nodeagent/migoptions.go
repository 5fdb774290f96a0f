// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/resource"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// The values of --mig.
const (
	migSlices = "slices"
	migNone   = "none"
)

// migOptions are the flags for GPUs in MIG mode.
type migOptions struct {
	mig string
}

func newMIGOptions() migOptions { return migOptions{mig: migSlices} }

func (o *migOptions) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.mig, "mig", o.mig,
		"what to do with GPUs in MIG mode: slices: give out their slices, as falldio.com/mig-1g.10gb and so on, where falldio.com/gpu is served; none: leave them alone")
}

func (o *migOptions) validate() error {
	if o.mig != migSlices && o.mig != migNone {
		return fmt.Errorf("--mig=%s: must be %s or %s", o.mig, migSlices, migNone)
	}
	return nil
}

// gpusOf returns the resource of whole GPUs among those that are served, if slices are served
// beside it: without falldio.com/gpu, nobody expects the agent to give out parts of GPUs.
func (o *migOptions) gpusOf(served []resource.Spec) (gpus resource.Spec, ok bool) {
	for i := range served {
		if served[i].Kind == resource.GPUs && served[i].Name == string(v1.ResourceGPU) {
			return served[i], o.mig == migSlices
		}
	}
	return resource.Spec{}, false
}
