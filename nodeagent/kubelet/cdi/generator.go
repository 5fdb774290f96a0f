// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Generator describes GPUs.
type Generator interface {
	// Generate returns the specification of these GPUs; each is the device that has its UUID
	// as its name. Of a GPU in MIG mode it describes the slices instead: a container that got
	// the GPU could use the slices of others. Devices that can't be described, such as lost
	// GPUs, are left out. An error means that none can.
	Generate(gpus []gpu.Info) (*specs.Spec, error)
}

// NewSpec returns a specification without devices, in the version that has all that is needed
// here and that the oldest supported runtimes know: containerd 1.7 and CRI-O 1.28.
func NewSpec() *specs.Spec { return &specs.Spec{Version: "0.5.0", Kind: Kind} }
