// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/pkg/durable"
)

// SimulatedDir is where a container finds the files of its simulated GPUs, each named after
// the GPU's UUID.
const SimulatedDir = "/run/falldio/gpus"

// Simulated describes simulated GPUs. A container gets for each of its GPUs the environment
// variable FALLDIO_GPU_<index> with the UUID, for each of its MIG slices
// FALLDIO_MIG_<index>_<GPU instance>, and a file in SimulatedDir with the properties as JSON.
type Simulated struct {
	// Dir is the directory of the specification, below which the files are.
	Dir string
}

var _ Generator = &Simulated{}

// files is the directory of the files on the node.
func (s *Simulated) files() string { return filepath.Join(s.Dir, Vendor+"-"+Class) }

// simulatedGPU is what a container can read of a simulated GPU or slice.
type simulatedGPU struct {
	Index       int    `json:"index"`
	UUID        string `json:"uuid"`
	Product     string `json:"product"`
	MemoryBytes uint64 `json:"memoryBytes"`
}

// Generate implements Generator.
func (s *Simulated) Generate(gpus []gpu.Info) (*specs.Spec, error) {
	if err := os.MkdirAll(s.files(), 0o755); err != nil { //nolint:gosec // for containers of any user
		return nil, err
	}
	spec := NewSpec()
	for i := range gpus {
		visible := visibleTo(&gpus[i])
		for _, variable := range slices.Sorted(maps.Keys(visible)) { // the same content each time
			device, err := s.device(variable, visible[variable])
			if err != nil {
				return nil, err
			}
			spec.Devices = append(spec.Devices, device)
		}
	}
	return spec, s.sweep(spec)
}

// visibleTo returns what containers can be given of a GPU, by the environment variable that
// tells them: the GPU, or else its slices.
func visibleTo(of *gpu.Info) map[string]simulatedGPU {
	index := strconv.Itoa(of.Index)
	if !of.MIG {
		return map[string]simulatedGPU{"FALLDIO_GPU_" + index: {Index: of.Index, UUID: of.UUID, Product: of.Product, MemoryBytes: of.MemoryBytes}}
	}
	visible := make(map[string]simulatedGPU, len(of.Slices))
	for i := range of.Slices {
		slice := &of.Slices[i]
		visible["FALLDIO_MIG_"+index+"_"+strconv.Itoa(slice.GPUInstance)] = simulatedGPU{
			Index: of.Index, UUID: slice.UUID, Product: of.Product + " MIG " + slice.Profile, MemoryBytes: slice.MemoryBytes,
		}
	}
	return visible
}

func (s *Simulated) device(variable string, of simulatedGPU) (specs.Device, error) {
	content, err := json.Marshal(of)
	if err != nil {
		return specs.Device{}, err
	}
	path := filepath.Join(s.files(), of.UUID)
	if err := durable.Replace(path, content, mode); err != nil {
		return specs.Device{}, fmt.Errorf("the file of simulated GPU %s: %w", of.UUID, err)
	}
	return specs.Device{Name: of.UUID, ContainerEdits: specs.ContainerEdits{
		Env: []string{variable + "=" + of.UUID},
		Mounts: []*specs.Mount{{
			HostPath: path, ContainerPath: filepath.Join(SimulatedDir, of.UUID),
			Options: []string{"ro", "nosuid", "nodev", "noexec", "bind"}, Type: "bind",
		}},
	}}, nil
}

// sweep removes the files of GPUs that are gone. Containers that have them keep them.
func (s *Simulated) sweep(spec *specs.Spec) error {
	present, err := os.ReadDir(s.files())
	if err != nil {
		return err
	}
	for _, file := range present {
		listed := slices.ContainsFunc(spec.Devices, func(device specs.Device) bool { return device.Name == file.Name() })
		if !listed {
			if err := os.Remove(filepath.Join(s.files(), file.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
