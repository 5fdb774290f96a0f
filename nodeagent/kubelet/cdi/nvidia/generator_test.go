// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvidia

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2/ktesting"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const (
	driverVersion = "550.54.15" // the mock's
	libraries     = "usr/lib/x86_64-linux-gnu"
	hookPath      = "/usr/bin/nvidia-cdi-hook"
)

// newMachine returns a machine with GPUs, and their driver's files in a directory.
func newMachine(t *testing.T, gpus int) (*server.Server, string) {
	t.Helper()
	library := dgxa100.New()
	library.Devices = library.Devices[:gpus]
	library.DriverVersion = driverVersion
	dir := t.TempDir()
	for _, file := range []string{"libcuda.so." + driverVersion, "libnvidia-ml.so." + driverVersion} {
		touch(t, filepath.Join(dir, libraries, file))
	}
	touch(t, filepath.Join(dir, hookPath))
	for number, name := range append([]string{"nvidiactl", "nvidia-uvm"}, nodesOf(library)...) {
		makeNode(t, filepath.Join(dir, "dev", name), number)
	}
	return library, dir
}

// nodesOf completes the mocks of GPUs and returns the names of their device nodes.
func nodesOf(library *server.Server) []string {
	var nodes []string
	for index, one := range library.Devices {
		device := one.(*server.Device)
		device.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return nvml.PciInfo{}, nvml.SUCCESS }
		device.IsMigDeviceHandleFunc = func() (bool, nvml.Return) { return false, nvml.SUCCESS }
		nodes = append(nodes, fmt.Sprint("nvidia", index))
	}
	return nodes
}

func makeNode(t *testing.T, path string, minor int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mknod(path, syscall.S_IFCHR|0o666, 195<<8|minor)
	if os.IsPermission(err) {
		t.Skip("only root can make the device nodes that are described")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func newGenerator(t *testing.T, library nvml.Interface, options Options) *Generator {
	t.Helper()
	return &Generator{given: options, library: library, logger: ktesting.NewLogger(t, ktesting.NewConfig())}
}

func infosOf(library *server.Server) []gpu.Info {
	var gpus []gpu.Info
	for index, device := range library.Devices {
		gpus = append(gpus, gpu.Info{Index: index, UUID: device.(*server.Device).UUID})
	}
	return gpus
}

// nodes returns the device nodes of a container that has a device.
func nodes(spec *specs.Spec, name string) []string {
	var paths []string
	for i := range spec.Devices {
		if spec.Devices[i].Name != name {
			continue
		}
		for _, node := range spec.Devices[i].ContainerEdits.DeviceNodes {
			paths = append(paths, node.Path)
		}
	}
	return paths
}

func TestEachGPUIsADeviceWithItsOwnNode(t *testing.T) {
	t.Parallel()
	library, dir := newMachine(t, 2)
	spec, err := newGenerator(t, library, Options{HostRoot: dir, DriverRoot: "/", HookPath: hookPath}).Generate(infosOf(library))
	if err != nil {
		t.Fatal(err)
	}
	if spec.Kind != "falldio.com/gpu" || len(spec.Devices) != 2 {
		t.Fatalf("kind %s, %d devices, want falldio.com/gpu and 2", spec.Kind, len(spec.Devices))
	}
	for i, info := range infosOf(library) {
		if diff := cmp.Diff([]string{fmt.Sprint("/dev/nvidia", i)}, nodes(spec, info.UUID)); diff != "" {
			t.Errorf("nodes of GPU %d (-want +got):\n%s", i, diff)
		}
	}
	// NVIDIA's container runtime, if it is the default one, must not add what an image asks for.
	if !slices.Contains(spec.ContainerEdits.Env, "NVIDIA_VISIBLE_DEVICES=void") {
		t.Errorf("environment of all: %v", spec.ContainerEdits.Env)
	}
}

func TestPathsAreThoseOfTheNode(t *testing.T) {
	t.Parallel()
	for _, driverRoot := range []string{"/", "/run/nvidia/driver"} {
		t.Run(driverRoot, func(t *testing.T) {
			t.Parallel()
			library, dir := newMachine(t, 1)
			if driverRoot != "/" {
				move(t, filepath.Join(dir, "usr"), filepath.Join(dir, driverRoot, "usr"))
				touch(t, filepath.Join(dir, hookPath))
			}
			spec, err := newGenerator(t, library, Options{HostRoot: dir, DriverRoot: driverRoot, HookPath: hookPath}).Generate(infosOf(library))
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(spec)
			if err != nil || strings.Contains(string(text), dir) {
				t.Errorf("the node has no %s (error %v): %s", dir, err, text)
			}
			wanted := filepath.Join(driverRoot, libraries, "libcuda.so."+driverVersion)
			if !slices.ContainsFunc(spec.ContainerEdits.Mounts, func(m *specs.Mount) bool { return m.HostPath == wanted }) {
				t.Errorf("%s is not mounted: %s", wanted, text)
			}
			for _, hook := range spec.ContainerEdits.Hooks {
				if hook.Path != hookPath {
					t.Errorf("the runtime would call %s", hook.Path)
				}
			}
		})
	}
}

func move(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestALostGPUIsLeftOut(t *testing.T) {
	t.Parallel()
	library, dir := newMachine(t, 2)
	gpus := infosOf(library)
	byUUID := library.DeviceGetHandleByUUIDFunc
	library.DeviceGetHandleByUUIDFunc = func(uuid string) (nvml.Device, nvml.Return) {
		if uuid == gpus[0].UUID {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return byUUID(uuid)
	}
	spec, err := newGenerator(t, library, Options{HostRoot: dir, DriverRoot: "/", HookPath: hookPath}).Generate(gpus)
	if err != nil || len(spec.Devices) != 1 || spec.Devices[0].Name != gpus[1].UUID {
		t.Errorf("devices %+v, error %v", spec, err)
	}
}

func TestWithoutTheDriversFiles(t *testing.T) {
	t.Parallel()
	library, dir := newMachine(t, 1)
	if err := os.RemoveAll(filepath.Join(dir, "usr")); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(dir, hookPath))
	_, err := newGenerator(t, library, Options{HostRoot: dir, DriverRoot: "/", HookPath: hookPath}).Generate(infosOf(library))
	if err == nil || !strings.Contains(err.Error(), "see --nvidia-driver-root") {
		t.Errorf("error %v", err)
	}
}

// The GPU Operator's driver and hook come after the process has started.
func TestDriverAndHookAreLookedForEachTime(t *testing.T) {
	t.Parallel()
	library, dir := newMachine(t, 1)
	generator := newGenerator(t, library, Options{HostRoot: dir})
	move(t, filepath.Join(dir, "usr"), filepath.Join(dir, "run/nvidia/driver/usr"))
	if _, err := generator.Generate(infosOf(library)); !errors.Is(err, ErrNoHook) {
		t.Errorf("without the hook: error %v", err)
	}
	touch(t, filepath.Join(dir, "usr/local/nvidia/toolkit/nvidia-cdi-hook"))
	touch(t, filepath.Join(dir, "run/nvidia/driver", driverProgram))
	if spec, err := generator.Generate(infosOf(library)); err != nil || len(spec.Devices) != 1 {
		t.Errorf("with both: %v, error %v", spec, err)
	}
}

// fakeToolkit describes all but the lost devices.
type fakeToolkit struct{ lost string }

func (f fakeToolkit) GetDeviceSpecsByID(uuids ...string) ([]specs.Device, error) {
	var devices []specs.Device
	for _, uuid := range uuids {
		if uuid == f.lost {
			return nil, nvml.ERROR_NOT_FOUND
		}
		devices = append(devices, specs.Device{Name: uuid})
	}
	return devices, nil
}

func TestTheSlicesOfAGPUAreDescribedInsteadOfIt(t *testing.T) {
	t.Parallel()
	gpus := []gpu.Info{
		{UUID: "GPU-a"},
		{UUID: "GPU-b", MIG: true, Slices: []gpu.Slice{{UUID: "MIG-a"}, {UUID: "MIG-b"}, {UUID: "MIG-c"}}},
		{UUID: "GPU-c", MIG: true},
	}
	devices, err := newGenerator(t, nil, Options{}).devices(fakeToolkit{lost: "MIG-b"}, gpus)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range devices {
		names = append(names, devices[i].Name)
	}
	if diff := cmp.Diff([]string{"GPU-a", "MIG-a", "MIG-c"}, names); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}
