// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package migprofile knows what NVIDIA's names of MIG profiles say, and how much a GPU has room
// for: "3g.40gb" is three of a GPU's seven compute slices, and 40 GB of its memory. The memory is
// divided into eighths, and the name has it rounded to whole GB. See
// https://docs.nvidia.com/datacenter/tesla/mig-user-guide/.
package migprofile

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

const (
	// ComputeSlices is how many compute slices a GPU in MIG mode is divided into. The few models that
	// have four, such as the A30, are counted as if they had seven: the profile alone does not say it.
	ComputeSlices = 7

	memorySlices = 8

	bytesPerGB = 1 << 30
)

// parse returns the compute slices and the GB of memory that a profile names.
func parse(profile string) (compute, gigabytes int, err error) {
	if !v1.IsMIGProfile(profile) {
		return 0, 0, fmt.Errorf("%q is no MIG profile, such as 1g.10gb", profile)
	}
	slices, rest, _ := strings.Cut(profile, "g.")
	memory, _, _ := strings.Cut(rest, "gb")
	if compute, err = strconv.Atoi(slices); err != nil {
		return 0, 0, err
	}
	gigabytes, err = strconv.Atoi(memory)
	return compute, gigabytes, err
}

// eighths returns how many eighths of a GPU's memory a number of GB is.
func eighths(gigabytes int, gpuBytes int64) int {
	perGB := float64(memorySlices) * bytesPerGB / float64(gpuBytes)
	return max(1, int(math.Round(float64(gigabytes)*perGB)))
}

// Memory returns how much memory a slice has on a GPU with gpuBytes of it; 0 if the text is no
// profile.
func Memory(profile string, gpuBytes int64) int64 {
	_, gigabytes, err := parse(profile)
	if err != nil {
		return 0
	}
	return gpuBytes / memorySlices * int64(eighths(gigabytes, gpuBytes))
}

// Fit returns why a GPU with gpuBytes of memory can't be divided into slices of these profiles,
// or nil. Where on a GPU each profile may be placed is not considered.
func Fit(profiles []string, gpuBytes int64) error {
	compute, memory := 0, 0
	for _, profile := range profiles {
		slices, gigabytes, err := parse(profile)
		if err != nil {
			return err
		}
		compute += slices
		memory += eighths(gigabytes, gpuBytes)
	}
	switch {
	case compute > ComputeSlices:
		return fmt.Errorf("they have %d compute slices together, a GPU has %d", compute, ComputeSlices)
	case memory > memorySlices:
		return fmt.Errorf("they have %d eighths of the GPU's memory together", memory)
	default:
		return nil
	}
}

// Compute returns how many of a GPU's ComputeSlices a slice of a profile has: 2 for "2g.20gb"; 0
// if the text is no profile.
func Compute(profile string) int {
	compute, _, err := parse(profile)
	if err != nil {
		return 0
	}
	return min(compute, ComputeSlices)
}
