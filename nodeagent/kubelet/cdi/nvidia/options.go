// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nvidia describes NVIDIA's GPUs by the Container Device Interface, with the
// library that NVIDIA's Container Toolkit has for it.
package nvidia

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"falldio.github.io/gpu-controller/nodeagent/hardware/nvml"
	"falldio.github.io/gpu-controller/pkg/program"
)

// Options say where the driver is. Empty paths but HostRoot are looked up by Locate.
type Options struct {
	// HostRoot is where this process sees the node's root directory. The other paths are the
	// node's.
	HostRoot string
	// DriverRoot is the directory that has the driver's libraries and programs: "/", or that
	// of a container that has the driver.
	DriverRoot string
	// HookPath is the program nvidia-cdi-hook of NVIDIA's Container Toolkit, which the
	// container runtime calls for each container.
	HookPath string
	// LimitMemory adds what limits the GPU memory of containers with shares.
	LimitMemory bool
}

// AddFlags adds the flags for what differs between nodes.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.HostRoot, "host-root", o.HostRoot, "where this program finds the root folder of the node")
	flags.StringVar(&o.DriverRoot, "nvidia-driver-root", o.DriverRoot,
		"folder on the node with NVIDIA's driver; by default /run/nvidia/driver if the GPU Operator has it there, else /")
	flags.StringVar(&o.HookPath, "nvidia-cdi-hook-path", o.HookPath,
		"path on the node of the program nvidia-cdi-hook, which comes with NVIDIA's Container Toolkit; by default where the GPU Operator or NVIDIA's packages have it")
}

// Check checks the flags.
func (o *Options) Check(problems *program.Problems) {
	problems.Absolute("host-root", o.HostRoot)
	problems.AbsoluteOrNone("nvidia-driver-root", o.DriverRoot)
	problems.AbsoluteOrNone("nvidia-cdi-hook-path", o.HookPath)
}

// ErrNoHook is why containers can't get GPUs by CDI.
var ErrNoHook = errors.New("the node has no nvidia-cdi-hook, see --nvidia-cdi-hook-path and --host-root; it comes with NVIDIA's Container Toolkit")

// Where NVIDIA's packages and its GPU Operator have the driver, the hook and the container runtime. The Operator
// comes first: its driver may run on a node that has an unused one of its own.
var (
	hookPaths = []string{"/usr/local/nvidia/toolkit/nvidia-cdi-hook", "/usr/bin/nvidia-cdi-hook"}
	// Toolkits before 1.17 have the runtime without the hook.
	runtimePaths = []string{"/usr/local/nvidia/toolkit/nvidia-container-runtime", "/usr/bin/nvidia-container-runtime"}
)

const (
	// operatorsRoot is where the GPU Operator has its driver.
	operatorsRoot = "/run/nvidia/driver"
	// driverProgram tells a directory that has the driver from one that has not.
	driverProgram = "usr/bin/nvidia-smi"
)

// Locate returns the options with the paths that are empty looked up on the node. found is
// false if the hook is nowhere to be seen: containers would not start.
func (o Options) Locate() (located Options, found bool) {
	if o.DriverRoot == "" {
		o.DriverRoot = "/"
		if o.has(filepath.Join(operatorsRoot, driverProgram)) {
			o.DriverRoot = operatorsRoot
		}
	}
	if o.HookPath != "" {
		return o, o.has(o.HookPath)
	}
	if at := slices.IndexFunc(hookPaths, o.has); at >= 0 {
		o.HookPath = hookPaths[at]
	}
	return o, o.HookPath != ""
}

// Installed reports whether the node has GPUs, their driver, and NVIDIA's Container Toolkit.
func (o Options) Installed() bool {
	_, hooked := o.Locate()
	return (hooked || o.HasRuntime()) && nvml.DriverLoaded(os.DirFS("/sys"), os.DirFS("/proc"))
}

// HasRuntime reports whether the node has NVIDIA's container runtime.
func (o Options) HasRuntime() bool { return slices.ContainsFunc(runtimePaths, o.has) }

// has reports whether the node has a file.
func (o *Options) has(path string) bool {
	info, err := os.Stat(filepath.Join(o.HostRoot, path))
	return err == nil && info.Mode().IsRegular()
}

// driverRootHere is where this process sees DriverRoot.
func (o *Options) driverRootHere() string { return filepath.Join(o.HostRoot, o.DriverRoot) }
