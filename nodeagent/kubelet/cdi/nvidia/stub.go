// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package nvidia

import (
	"errors"

	"k8s.io/klog/v2"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Generator replaces the real one in a build without cgo, which can't use NVIDIA's library.
type Generator struct{}

// New returns a Generator that describes nothing.
func New(Options, string, klog.Logger) *Generator { return &Generator{} }

// LimitsMemory returns false.
func (*Generator) LimitsMemory() bool { return false }

// Generate fails.
func (*Generator) Generate([]gpu.Info) (*specs.Spec, error) {
	return nil, errors.New("this program was built without NVML, rebuild it with CGO_ENABLED=1")
}
