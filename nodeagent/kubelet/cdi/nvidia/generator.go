// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvidia

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/spec"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi/transform/root"
	"k8s.io/klog/v2"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
)

// Generator describes NVIDIA's GPUs.
type Generator struct {
	// given are the options as the user has set them, and options those with what is on the node
	// by now.
	given   Options
	options Options
	library nvml.Interface
	logger  klog.Logger
	// limitsMemory is true if the last specification limits memory.
	limitsMemory atomic.Bool
}

var _ cdi.Generator = &Generator{}

// New returns a Generator. library is the path of libnvidia-ml.so.1; empty to let the
// dynamic linker find it.
func New(options Options, library string, logger klog.Logger) *Generator {
	var loading []nvml.LibraryOption
	if library != "" {
		loading = append(loading, nvml.WithLibraryPath(library))
	}
	return &Generator{given: options, library: nvml.New(loading...), logger: logger}
}

// Generate implements cdi.Generator. Driver and hook may have been installed, or moved, since the last time.
func (g *Generator) Generate(gpus []gpu.Info) (*specs.Spec, error) {
	var found bool
	if g.options, found = g.given.Locate(); !found {
		return nil, ErrNoHook
	}
	toolkit, err := g.toolkit()
	if err != nil {
		return nil, err
	}
	common, err := toolkit.GetCommonEdits()
	if err != nil {
		return nil, fmt.Errorf("the driver's files in %s: %w; see --nvidia-driver-root and --host-root", g.options.driverRootHere(), err)
	}
	devices, err := g.devices(toolkit, gpus)
	if err != nil {
		return nil, err
	}
	whole, err := spec.New(spec.WithDeviceSpecs(devices), spec.WithEdits(*common.ContainerEdits), spec.WithVendor(cdi.Vendor), spec.WithClass(cdi.Class))
	if err != nil {
		return nil, err
	}
	if err := g.toHost(whole.Raw()); err != nil {
		return nil, err
	}
	if g.options.LimitMemory {
		g.limitMemory(whole.Raw(), gpus)
	}
	return whole.Raw(), nil
}

// toolkit returns NVIDIA's library. Its logger is ours; it finds the driver's version
// through NVML.
func (g *Generator) toolkit() (nvcdi.Interface, error) {
	byUUID, err := nvcdi.NewDeviceNamer(nvcdi.DeviceNameStrategyUUID)
	if err != nil {
		return nil, err
	}
	return nvcdi.New(
		nvcdi.WithMode(nvcdi.ModeNvml),
		nvcdi.WithLogger(toolkitLogger{g.logger}),
		nvcdi.WithNvmlLib(g.library),
		nvcdi.WithDeviceNamers(byUUID),
		nvcdi.WithDriverRoot(g.options.driverRootHere()),
		nvcdi.WithDevRoot(g.options.HostRoot),
		nvcdi.WithNVIDIACDIHookPath(g.options.HookPath),
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
	)
}

// describer describes a GPU or a MIG device by its UUID.
type describer interface {
	GetDeviceSpecsByID(uuids ...string) ([]specs.Device, error)
}

// devices describes GPUs and slices one by one, so that one that does not respond does not keep
// the others from containers.
func (g *Generator) devices(toolkit describer, gpus []gpu.Info) ([]specs.Device, error) {
	var devices []specs.Device
	var problems []error
	for i := range gpus {
		for _, uuid := range gpus[i].Usable() {
			described, err := toolkit.GetDeviceSpecsByID(uuid)
			if err != nil {
				problems = append(problems, fmt.Errorf("GPU %s: %w", uuid, err))
				g.logger.Error(err, "A GPU can't be described for the container runtime", "gpu", uuid)
				continue
			}
			devices = append(devices, described...)
		}
	}
	if len(devices) == 0 {
		return nil, errors.Join(problems...)
	}
	return devices, nil
}

// toHost turns the paths that this process sees into those of the node.
func (g *Generator) toHost(described *specs.Spec) error {
	for _, one := range []struct{ here, there string }{{g.options.driverRootHere(), g.options.DriverRoot}, {g.options.HostRoot, "/"}} {
		moved := root.New(root.WithRoot(one.here), root.WithTargetRoot(one.there), root.WithRelativeTo("host"))
		if err := moved.Transform(described); err != nil {
			return err
		}
	}
	return nil
}
