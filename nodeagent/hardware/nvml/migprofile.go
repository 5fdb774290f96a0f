// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// wholeGPU is how many compute slices the profile of all of a GPU has.
	wholeGPU = 7
	// eighths is how many parts the memory of a GPU is divided into.
	eighths = 8
)

// profileFrom returns the profile of a MIG device as NVIDIA forms its name, made of its
// attributes, for libraries whose names of MIG devices lack it: the compute slices, the GPU's
// memory in GB times the device's share of it in eighths, and "+me" if a part of a GPU has the
// media engines, of which the optical flow accelerator (OFA) is one that other parts lack. It is
// empty if anything is unknown, or the device is a part of a GPU instance only.
func profileFrom(attributes *nvml.DeviceAttributes, gpuBytes uint64) string {
	slices := attributes.GpuInstanceSliceCount
	if slices == 0 || slices != attributes.ComputeInstanceSliceCount || attributes.MemorySizeMB == 0 || gpuBytes == 0 {
		return ""
	}
	part := math.Ceil(float64(attributes.MemorySizeMB<<20)/float64(gpuBytes)*eighths) / eighths
	gigabytes := math.Ceil(float64(gpuBytes) / (1 << 30))
	profile := fmt.Sprintf("%dg.%.0fgb", slices, math.Round(part*gigabytes))
	if slices < wholeGPU && attributes.SharedOfaCount > 0 {
		profile += "+me"
	}
	return profile
}
