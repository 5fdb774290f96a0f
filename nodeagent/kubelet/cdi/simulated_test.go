// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cdi_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	clocktesting "k8s.io/utils/clock/testing"
	runtimecdi "tags.cncf.io/container-device-interface/pkg/cdi"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
)

// inject changes a container as runtimes do: with the library that containerd and CRI-O use.
func inject(t *testing.T, dir string, container *oci.Spec, uuids ...string) {
	t.Helper()
	cache, err := runtimecdi.NewCache(runtimecdi.WithSpecDirs(dir), runtimecdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if problems := cache.GetErrors(); len(problems) > 0 {
		t.Fatalf("the runtime does not accept the specification: %v", problems)
	}
	var names []string
	for _, uuid := range uuids {
		names = append(names, cdi.Name(cdi.Kind, uuid))
	}
	if unresolved, err := cache.InjectDevices(container, names...); err != nil {
		t.Fatalf("%v: %v", unresolved, err)
	}
}

func TestAContainerGetsItsSimulatedGPUsAndNoOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writer := cdi.NewWriter(dir, &cdi.Simulated{Dir: dir}, clocktesting.NewFakeClock(time.Now()))
	snapshot := &gpu.Snapshot{Taken: time.Now()}
	for i, uuid := range []string{"GPU-a", "GPU-b", "GPU-c"} {
		snapshot.Devices = append(snapshot.Devices, gpu.Device{Info: gpu.Info{Index: i, UUID: uuid, Product: "H100", MemoryBytes: 8 << 30}})
	}
	if err := writer.Update(snapshot); err != nil {
		t.Fatal(err)
	}
	container := &oci.Spec{Process: &oci.Process{Env: []string{"FALLDIO_VISIBLE_DEVICES=all"}}} // by the Pod itself
	inject(t, dir, container, "GPU-a", "GPU-c")
	slices.Sort(container.Process.Env)
	if diff := cmp.Diff([]string{"FALLDIO_GPU_0=GPU-a", "FALLDIO_GPU_2=GPU-c", "FALLDIO_VISIBLE_DEVICES=all"}, container.Process.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	var files []string
	for _, mount := range container.Mounts {
		files = append(files, mount.Destination)
		content, err := os.ReadFile(mount.Source)
		if err != nil || !slices.Contains(mount.Options, "ro") {
			t.Errorf("mount %+v: %q, %v", mount, content, err)
		}
	}
	slices.Sort(files)
	if diff := cmp.Diff([]string{"/run/falldio/gpus/GPU-a", "/run/falldio/gpus/GPU-c"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// divided returns a GPU in MIG mode with two slices.
func divided() gpu.Device {
	return gpu.Device{Info: gpu.Info{Index: 1, UUID: "GPU-b", Product: "H100", MIG: true, Slices: []gpu.Slice{
		{UUID: "MIG-a", Profile: "1g.10gb", MemoryBytes: 10 << 30, GPUInstance: 7},
		{UUID: "MIG-b", Profile: "1g.10gb", MemoryBytes: 10 << 30, GPUInstance: 8},
	}}}
}

func TestAContainerGetsItsSliceAndNotTheGPU(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writer := cdi.NewWriter(dir, &cdi.Simulated{Dir: dir}, clocktesting.NewFakeClock(time.Now()))
	if err := writer.Update(&gpu.Snapshot{Taken: time.Now(), Devices: []gpu.Device{divided()}}); err != nil {
		t.Fatal(err)
	}
	if writer.Has("GPU-b") || !writer.Has("MIG-a") {
		t.Error("the GPU is described, or its slice is not")
	}
	container := &oci.Spec{Process: &oci.Process{}}
	inject(t, dir, container, "MIG-b")
	if diff := cmp.Diff([]string{"FALLDIO_MIG_1_8=MIG-b"}, container.Process.Env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if len(container.Mounts) != 1 || container.Mounts[0].Destination != "/run/falldio/gpus/MIG-b" {
		t.Fatalf("mounts %+v", container.Mounts)
	}
	content, err := os.ReadFile(container.Mounts[0].Source)
	if diff := cmp.Diff(`{"index":1,"uuid":"MIG-b","product":"H100 MIG 1g.10gb","memoryBytes":10737418240}`, string(content)); diff != "" || err != nil {
		t.Errorf("file (-want +got), %v:\n%s", err, diff)
	}
}

func TestTheFilesOfSimulatedGPUsThatAreGoneAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	generator := &cdi.Simulated{Dir: dir}
	for _, uuids := range [][]string{{"GPU-a", "GPU-b"}, {"GPU-b"}} {
		var gpus []gpu.Info
		for i, uuid := range uuids {
			gpus = append(gpus, gpu.Info{Index: i, UUID: uuid})
		}
		if _, err := generator.Generate(gpus); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "falldio.com-gpu", "*"))
	if diff := cmp.Diff([]string{filepath.Join(dir, "falldio.com-gpu", "GPU-b")}, left); diff != "" || err != nil {
		t.Errorf("files (-want +got), %v:\n%s", err, diff)
	}
}
