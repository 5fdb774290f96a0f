// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/migprofile"
)

// profilesOf returns the profiles of a GPU's slices; none if it is whole.
func (p *Profile) profilesOf(index int) []string {
	next := 0
	for _, division := range p.MIG {
		if next += division.GPUs; division.GPUs == 0 || index < next {
			return division.Slices
		}
	}
	return nil
}

// firstInstance is the number of the first GPU instance that NVIDIA's driver makes on an empty
// GPU when it is one of seven.
const firstInstance = 7

// slices returns the slices of a GPU, given their profiles. Their UUIDs survive restarts of the
// agent, as those of GPUs do.
func (p *Profile) slices(node string, index int, profiles []string) []gpu.Slice {
	var list []gpu.Slice
	for place, profile := range profiles {
		list = append(list, gpu.Slice{
			UUID:        "MIG-" + uuid.NewSHA1(uuids, fmt.Appendf(nil, "%s/%d/%d/%s", node, index, place, profile)).String(),
			Profile:     profile,
			MemoryBytes: uint64(migprofile.Memory(profile, p.Memory.Value())), //nolint:gosec // a part of the GPU's
			GPUInstance: firstInstance + place,
			Capability:  gpu.Unknown,
		})
	}
	return list
}

// divide adds to a sample what the driver measures of slices, and removes what it does not
// measure of a GPU in MIG mode.
func (p *Profile) divide(sample *gpu.Sample, slices []gpu.Slice, now time.Time) {
	for _, quantity := range []gpu.Quantity{gpu.Utilization, gpu.MemoryUtilization, gpu.EncoderUtilization, gpu.DecoderUtilization} {
		delete(sample.Values, quantity)
	}
	sample.Slices = make(map[string]gpu.Values, len(slices))
	for i := range slices {
		memory := float64(slices[i].MemoryBytes)
		used := math.Floor(memory * p.filled(slices[i].UUID).at(now.Sub(epoch).Seconds()))
		sample.Slices[slices[i].UUID] = gpu.Values{gpu.MemoryUsed: used, gpu.MemoryFree: memory - used}
	}
}
