// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvidia

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2/ktesting"
	"tags.cncf.io/container-device-interface/specs-go"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// TestHardware describes the GPUs of this machine. If NVIDIA's nvidia-ctk is installed, it must
// describe them alike.
func TestHardware(t *testing.T) {
	gpus := realGPUs(t)
	options, hooked := Options{HostRoot: "/"}.Locate()
	t.Logf("driver in %s, hook %s (found: %t)", options.DriverRoot, options.HookPath, hooked)
	if !hooked {
		options.HookPath = hookPath // only named in the description
	}
	begin := time.Now()
	spec, err := New(options, "", ktesting.NewLogger(t, ktesting.NewConfig())).Generate(gpus)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("described in %v: %d devices, %d files, %d hooks", time.Since(begin), len(spec.Devices), len(spec.ContainerEdits.Mounts), len(spec.ContainerEdits.Hooks))
	if len(spec.Devices) != len(gpus) {
		t.Errorf("%d devices, want %d", len(spec.Devices), len(gpus))
	}
	for i := range spec.Devices {
		paths := nodes(spec, spec.Devices[i].Name)
		t.Logf("GPU %s: %v", spec.Devices[i].Name, paths)
		for _, path := range paths {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
	}
	for _, mount := range spec.ContainerEdits.Mounts {
		if _, err := os.Stat(mount.HostPath); err != nil {
			t.Error(err)
		}
	}
	compareWithToolkit(t, spec)
}

// realGPUs returns the GPUs of this machine that are not in MIG mode.
func realGPUs(t *testing.T) []gpu.Info {
	t.Helper()
	library := nvml.New()
	if ret := library.Init(); ret != nvml.SUCCESS {
		t.Skip("there are no GPUs here: ", ret.Error())
	}
	defer func() { _ = library.Shutdown() }()
	count, ret := library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	var gpus []gpu.Info
	for index := range count {
		device, ret := library.DeviceGetHandleByIndex(index)
		if ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		if mode, _, ret := device.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
			continue
		}
		uuid, ret := device.GetUUID()
		if ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		gpus = append(gpus, gpu.Info{Index: index, UUID: uuid})
	}
	return gpus
}

// compareWithToolkit compares with what nvidia-ctk describes, if it is installed.
func compareWithToolkit(t *testing.T, spec *specs.Spec) {
	t.Helper()
	program, err := exec.LookPath("nvidia-ctk")
	if err != nil {
		t.Log("nvidia-ctk is not installed: nothing to compare with")
		return
	}
	text, err := exec.CommandContext(t.Context(), program, "cdi", "generate", "--format=json", "--device-name-strategy=uuid", "--mode=nvml").Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	var theirs specs.Spec
	if err := json.Unmarshal(text, &theirs); err != nil {
		t.Fatal(err)
	}
	for i := range spec.Devices {
		name := spec.Devices[i].Name
		if diff := cmp.Diff(nodes(&theirs, name), nodes(spec, name)); diff != "" {
			t.Errorf("nodes of GPU %s (-nvidia-ctk +ours):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(hostPaths(&theirs), hostPaths(spec)); diff != "" {
		t.Errorf("files (-nvidia-ctk +ours):\n%s", diff)
	}
}

func hostPaths(spec *specs.Spec) []string {
	var paths []string
	for _, mount := range spec.ContainerEdits.Mounts {
		paths = append(paths, mount.HostPath)
	}
	slices.Sort(paths)
	return paths
}
