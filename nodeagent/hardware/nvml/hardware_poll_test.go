// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/monitor"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

// openHardware opens the GPUs of this machine, or skips the test.
func openHardware(t *testing.T) (*Source, gpu.Inventory) {
	t.Helper()
	source := New(Options{Logger: ktesting.NewLogger(t, ktesting.DefaultConfig)})
	inventory, err := source.Open()
	if errors.Is(err, gpu.ErrUnavailable) {
		t.Skip("there are no GPUs here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	})
	return source, inventory
}

// TestHardwarePoll measures whole polls of the agent, with as many simulated GPUs beside them.
func TestHardwarePoll(t *testing.T) {
	source, inventory := openHardware(t)
	profile := simulation.Default()
	profile.Count = new(len(inventory.GPUs))
	if err := profile.Complete(); err != nil {
		t.Fatal(err)
	}
	every := func(string) bool { return true }
	for _, one := range []struct {
		what      string
		source    gpu.Source
		processes func(string) bool
	}{
		{"polls of these GPUs", source, nil},
		{"polls of these GPUs with their processes", source, every},
		{"polls of as many simulated GPUs", simulation.New(profile, "hardware", clock.RealClock{}), nil},
	} {
		m := monitor.New(monitor.Config{
			Source: one.source, Clock: clock.RealClock{}, Policy: health.DefaultPolicy(), Deadline: time.Minute, Processes: one.processes,
		})
		var took []time.Duration
		for range 101 {
			begin := time.Now()
			m.Poll(t.Context())
			took = append(took, time.Since(begin))
			if problem := m.Snapshot().Problem; problem != nil {
				t.Fatal(problem)
			}
		}
		slices.Sort(took)
		t.Logf("%d GPUs, %s: median %v, longest %v", len(inventory.GPUs), one.what, took[len(took)/2], took[len(took)-1])
		if one.source != source {
			_ = one.source.Close()
		}
	}
}

// TestHardwareProcesses reads the processes on the GPUs twice: the first time, no utilization is
// measured.
func TestHardwareProcesses(t *testing.T) {
	source, inventory := openHardware(t)
	for _, info := range inventory.GPUs {
		for range 2 {
			begin := time.Now()
			sample, err := source.Processes(info.UUID)
			t.Logf("GPU %d, processes read in %v: %+v %v", info.Index, time.Since(begin), sample, err)
			if err != nil {
				continue
			}
			for _, process := range sample.Processes {
				if used := process.Values[gpu.MemoryUsed]; process.PID <= 0 || used > float64(info.MemoryBytes) {
					t.Errorf("a process that can't be: %+v", process)
				}
			}
		}
	}
}

// cgroups is where Linux mounts control groups of version 2.
const cgroups = "/sys/fs/cgroup"

// TestHardwareMemoryLimits has the driver limit the memory of a control group, as NVIDIA's hook
// does for containers with --share-memory-limits=driver, and reads the limit back.
func TestHardwareMemoryLimits(t *testing.T) {
	_, inventory := openHardware(t)
	library := nvml.New()
	if ret := library.Init(); ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	defer func() { _ = library.Shutdown() }()
	for _, call := range []string{"nvmlDeviceSetMemoryLimits_v1", "nvmlDeviceGetMemoryLimits_v1"} {
		if err := library.Extensions().LookupSymbol(call); err != nil {
			t.Skipf("the driver %s lacks %s; drivers have it from r615 on", inventory.Driver.Version, call)
		}
	}
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err != nil {
		t.Skip("this machine lacks control groups of version 2: ", err)
	}
	group := filepath.Join(cgroups, "gpu-controller-test")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skip("this test may not make a control group; run it as root: ", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(group); err != nil {
			t.Error(err)
		}
	})
	// Without the controller, the driver accounts by itself.
	if err := os.WriteFile(filepath.Join(cgroups, "cgroup.subtree_control"), []byte("+dmem"), 0o600); err != nil {
		t.Log("the kernel has no dmem controller (Linux 6.14 has): ", err)
	}
	if regions, err := os.ReadFile(filepath.Join(cgroups, "dmem.capacity")); err == nil {
		t.Logf("dmem.capacity:\n%s", regions)
	}
	for _, info := range inventory.GPUs {
		limitMemory(t, library, group, info)
	}
}

func limitMemory(t *testing.T, library nvml.Interface, group string, info gpu.Info) {
	t.Helper()
	if info.MIG {
		t.Logf("GPU %d is in MIG mode: its memory can't be limited", info.Index)
		return
	}
	device, ret := library.DeviceGetHandleByUUID(info.UUID)
	if ret != nvml.SUCCESS {
		t.Fatal(ret)
	}
	const limit = 1 << 30
	if ret := device.SetMemoryLimits_v1(group, 0, limit); ret != nvml.SUCCESS {
		t.Errorf("GPU %d: setting a limit: %v", info.Index, ret)
		return
	}
	got, ret := device.GetMemoryLimits_v1(group)
	t.Logf("GPU %d: %+v %v", info.Index, got, ret)
	if files, err := filepath.Glob(filepath.Join(group, "dmem.*")); err == nil {
		for _, file := range files {
			text, err := os.ReadFile(file)
			t.Logf("%s: %s %v", filepath.Base(file), text, err)
		}
	}
	if ret != nvml.SUCCESS || got.HardLimit != limit {
		t.Errorf("GPU %d: the limit is %+v (%v), want %d", info.Index, got, ret, limit)
	}
}
