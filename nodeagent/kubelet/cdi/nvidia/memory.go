// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvidia

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const (
	// memoryCall is NVIDIA's function that it calls; drivers have it from r615 on.
	memoryCall = "nvmlDeviceSetMemoryLimits_v1"
	// createRuntime hooks run outside the container, before its program starts.
	createRuntime = "createRuntime"
)

// LimitsMemory reports whether the last description has what limits the GPU memory of
// containers with shares.
func (g *Generator) LimitsMemory() bool { return g.limitsMemory.Load() }

// limitMemory adds NVIDIA's hook to GPUs, if the driver can do what it asks for. It does nothing
// in a container without its variables.
func (g *Generator) limitMemory(described *specs.Spec, gpus []gpu.Info) {
	err := g.driverLimitsMemory()
	g.limitsMemory.Store(err == nil)
	if err != nil {
		g.logger.Error(err, "The driver can't limit the memory of shares: it needs r615 or later")
		return
	}
	for i := range described.Devices {
		device := &described.Devices[i]
		isWhole := slices.ContainsFunc(gpus, func(info gpu.Info) bool { return info.UUID == device.Name })
		if isWhole && !slices.ContainsFunc(device.ContainerEdits.Hooks, isMemoryHook) { // later versions of nvcdi add it
			device.ContainerEdits.Hooks = append(device.ContainerEdits.Hooks, g.memoryHookOf(device.Name))
		}
	}
}

func isMemoryHook(hook *specs.Hook) bool { return slices.Contains(hook.Args, memoryHook) }

func (g *Generator) memoryHookOf(uuid string) *specs.Hook {
	return &specs.Hook{
		HookName: createRuntime, Path: g.options.HookPath,
		Args: []string{filepath.Base(g.options.HookPath), memoryHook, "--driver-root", g.options.DriverRoot, "--gpu-id", uuid},
	}
}

// driverLimitsMemory returns an error if the driver's library lacks the function.
func (g *Generator) driverLimitsMemory() (err error) {
	if ret := g.library.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("nvmlInit: %w", ret)
	}
	defer func() {
		if ret := g.library.Shutdown(); ret != nvml.SUCCESS {
			err = errors.Join(err, fmt.Errorf("nvmlShutdown: %w", ret))
		}
	}()
	return g.library.Extensions().LookupSymbol(memoryCall)
}
