// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package share names shares of GPUs, the devices of falldio.com/gpu-percent.
//
// A share's ID contains the UUID of its GPU, in the form that NVIDIA's device plugin uses
// for replicas and dcgm-exporter understands: "<UUID>::<number>". So the ID alone
// distinguishes a share from a whole GPU, whose ID is its UUID.
package share

import (
	"slices"
	"strconv"
	"strings"
)

// PerGPU is how many shares a GPU has. Each is one percent of it.
const PerGPU = 100

// Variable is the environment variable with a container's share of its GPU, in percent.
const Variable = "GPU_SHARE_PERCENT"

// MemoryMiB returns how much of a GPU's memory a share is, in MiB and rounded down.
func MemoryMiB(percent int, ofMiB int64) int64 { return ofMiB * int64(percent) / PerGPU }

const separator = "::"

// ID returns the ID of one of a GPU's shares, which are numbered from 0.
func ID(uuid string, number int) string { return uuid + separator + strconv.Itoa(number) }

// Of returns the GPU of a share, and true. Any other ID is returned unchanged.
func Of(id string) (gpu string, isShare bool) {
	gpu, number, found := strings.Cut(id, separator)
	if !found || gpu == "" {
		return id, false
	}
	if value, err := strconv.Atoi(number); err != nil || value < 0 || value >= PerGPU || ID(gpu, value) != id {
		return id, false
	}
	return gpu, true
}

// GPU returns the GPU of a share. Any other ID is returned unchanged.
func GPU(id string) string {
	gpu, _ := Of(id)
	return gpu
}

// GPUs returns the GPUs of shares, or whole GPUs, each once and sorted.
func GPUs(ids []string) []string {
	gpus := make([]string, 0, min(len(ids), 1))
	for _, id := range ids {
		if gpu := GPU(id); len(gpus) == 0 || gpus[len(gpus)-1] != gpu {
			gpus = append(gpus, gpu) // shares of a GPU are mostly adjacent
		}
	}
	slices.Sort(gpus)
	return slices.Compact(gpus)
}
