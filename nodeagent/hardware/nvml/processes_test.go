// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"errors"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// busy are processes of the GPU 0, by the list that they are in.
type busy struct {
	compute, graphics, mps []nvml.ProcessInfo
	// lastSeen are the times since which samples were requested.
	lastSeen []uint64
	samples  []nvml.ProcessUtilizationSample
	// status is what the utilization call returns.
	status nvml.Return
}

func (b *busy) on(node *node) {
	list := func(from *[]nvml.ProcessInfo) func() ([]nvml.ProcessInfo, nvml.Return) {
		return func() ([]nvml.ProcessInfo, nvml.Return) { return *from, nvml.SUCCESS }
	}
	device := node.gpu(0)
	device.GetComputeRunningProcessesFunc = list(&b.compute)
	device.GetGraphicsRunningProcessesFunc = list(&b.graphics)
	device.GetMPSComputeRunningProcessesFunc = list(&b.mps)
	device.GetProcessUtilizationFunc = func(since uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		b.lastSeen = append(b.lastSeen, since)
		return b.samples, b.status
	}
}

func mustReadProcesses(t *testing.T, source *Source) *gpu.ProcessSample {
	t.Helper()
	sample, err := source.Processes("GPU-0")
	if err != nil {
		t.Fatal(err)
	}
	return sample
}

func expectProcesses(t *testing.T, got *gpu.ProcessSample, measured []gpu.Quantity, processes ...gpu.Process) {
	t.Helper()
	want := &gpu.ProcessSample{Measured: measured, Processes: processes}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

// allOfThem are the quantities that a driver measures by process.
func allOfThem() []gpu.Quantity {
	return []gpu.Quantity{gpu.MemoryUsed, gpu.Utilization, gpu.MemoryUtilization, gpu.EncoderUtilization, gpu.DecoderUtilization}
}

func TestAProcessInSeveralListsCountsOnce(t *testing.T) {
	node := newH100s(t, 1)
	processes := &busy{
		compute:  []nvml.ProcessInfo{{Pid: 30, UsedGpuMemory: 3 << 30}, {Pid: 10, UsedGpuMemory: 1 << 30}},
		graphics: []nvml.ProcessInfo{{Pid: 30, UsedGpuMemory: 3 << 30}, {Pid: 40, UsedGpuMemory: 0}},
		mps:      []nvml.ProcessInfo{{Pid: 20, UsedGpuMemory: 2 << 30}},
		status:   nvml.ERROR_NOT_SUPPORTED,
	}
	processes.on(node)
	source := node.source(t)
	mustOpen(t, source)
	expectProcesses(t, mustReadProcesses(t, source), []gpu.Quantity{gpu.MemoryUsed},
		gpu.Process{PID: 10, Values: gpu.Values{gpu.MemoryUsed: 1 << 30}},
		gpu.Process{PID: 20, Values: gpu.Values{gpu.MemoryUsed: 2 << 30}},
		gpu.Process{PID: 30, Values: gpu.Values{gpu.MemoryUsed: 3 << 30}},
		gpu.Process{PID: 40})
}

func TestUtilizationIsThatSinceTheLastRead(t *testing.T) {
	node := newH100s(t, 1)
	processes := &busy{samples: []nvml.ProcessUtilizationSample{{Pid: 10, TimeStamp: 1000, SmUtil: 90}}}
	processes.on(node)
	source := node.source(t)
	mustOpen(t, source)
	expectProcesses(t, mustReadProcesses(t, source), []gpu.Quantity{gpu.MemoryUsed})

	processes.samples = []nvml.ProcessUtilizationSample{
		{Pid: 10, TimeStamp: 3000, SmUtil: 50, MemUtil: 40, EncUtil: 30, DecUtil: 20},
		{Pid: 10, TimeStamp: 2000, SmUtil: 1},   // an earlier one
		{Pid: 20, TimeStamp: 1000, SmUtil: 90},  // seen before
		{Pid: 30, TimeStamp: 3000, SmUtil: 101}, // not set by the driver
		{Pid: 0, TimeStamp: 3000, SmUtil: 7},
	}
	node.clock.Step(5 * time.Second)
	expectProcesses(t, mustReadProcesses(t, source), allOfThem(), gpu.Process{PID: 10, Values: gpu.Values{
		gpu.Utilization: 0.5, gpu.MemoryUtilization: 0.4, gpu.EncoderUtilization: 0.3, gpu.DecoderUtilization: 0.2,
	}})

	processes.samples, processes.status = nil, nvml.ERROR_NOT_FOUND // all are idle
	node.clock.Step(5 * time.Second)
	expectProcesses(t, mustReadProcesses(t, source), allOfThem())
	if diff := cmp.Diff([]uint64{0, 1000, 3000}, processes.lastSeen); diff != "" {
		t.Errorf("samples were requested since (-want +got):\n%s", diff)
	}
}

func TestOldSamplesDontCountAfterAPause(t *testing.T) {
	node := newH100s(t, 1)
	processes := &busy{status: nvml.ERROR_NOT_FOUND}
	processes.on(node)
	source := node.source(t)
	mustOpen(t, source)
	mustReadProcesses(t, source)
	processes.samples, processes.status = []nvml.ProcessUtilizationSample{{Pid: 10, TimeStamp: 1000, SmUtil: 90}}, nvml.SUCCESS
	node.clock.Step(sampleWindow + time.Second)
	expectProcesses(t, mustReadProcesses(t, source), []gpu.Quantity{gpu.MemoryUsed})
}

func TestUtilizationThatCantBeReadOnce(t *testing.T) {
	node := newH100s(t, 1)
	processes := &busy{status: nvml.ERROR_NOT_FOUND}
	processes.on(node)
	source := node.source(t)
	mustOpen(t, source)
	mustReadProcesses(t, source)
	processes.status = nvml.ERROR_INSUFFICIENT_SIZE
	expectProcesses(t, mustReadProcesses(t, source), []gpu.Quantity{gpu.MemoryUsed})
	processes.status = nvml.ERROR_NOT_FOUND
	expectProcesses(t, mustReadProcesses(t, source), allOfThem())
	processes.status = nvml.ERROR_GPU_IS_LOST
	if _, err := source.Processes("GPU-0"); !errors.Is(err, gpu.ErrLost) {
		t.Errorf("error %v, want that the GPU is lost", err)
	}
}

func TestMemoryThatIsUnknownOfOneProcessIsNotMeasured(t *testing.T) {
	node := newH100s(t, 1)
	processes := &busy{
		compute: []nvml.ProcessInfo{{Pid: 10, UsedGpuMemory: 1 << 30}, {Pid: 20, UsedGpuMemory: notAvailable}},
		status:  nvml.ERROR_NOT_SUPPORTED,
	}
	processes.on(node)
	source := node.source(t)
	mustOpen(t, source)
	expectProcesses(t, mustReadProcesses(t, source), nil, gpu.Process{PID: 10}, gpu.Process{PID: 20})
}

func TestProcessesWithAnOldLibrary(t *testing.T) {
	node := newH100s(t, 1)
	(&busy{compute: []nvml.ProcessInfo{{Pid: 10, UsedGpuMemory: 1 << 30}}}).on(node)
	node.without("nvmlDeviceGetMPSComputeRunningProcesses", processUtilizationCall)
	node.gpu(0).GetMPSComputeRunningProcessesFunc, node.gpu(0).GetProcessUtilizationFunc = nil, nil
	source := node.source(t)
	mustOpen(t, source)
	expectProcesses(t, mustReadProcesses(t, source), []gpu.Quantity{gpu.MemoryUsed},
		gpu.Process{PID: 10, Values: gpu.Values{gpu.MemoryUsed: 1 << 30}})
}

func TestProcessesThatCantBeRead(t *testing.T) {
	tests := map[string]struct {
		status nvml.Return
		want   error
	}{
		"the GPU does not list them": {nvml.ERROR_NOT_SUPPORTED, gpu.ErrUnsupported},
		"the GPU is lost":            {nvml.ERROR_GPU_IS_LOST, gpu.ErrLost},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			node := newH100s(t, 1)
			refuse := func() ([]nvml.ProcessInfo, nvml.Return) {
				node.called("list")
				return nil, test.status
			}
			device := node.gpu(0)
			device.GetComputeRunningProcessesFunc, device.GetGraphicsRunningProcessesFunc, device.GetMPSComputeRunningProcessesFunc = refuse, refuse, refuse
			source := node.source(t)
			mustOpen(t, source)
			for range 2 {
				if _, err := source.Processes("GPU-0"); !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
			}
			if calls := node.count("list"); errors.Is(test.want, gpu.ErrUnsupported) && calls != 3 {
				t.Errorf("the lists were requested %d times, want each once", calls)
			}
		})
	}
	t.Run("of no GPU", func(t *testing.T) {
		source := newH100s(t, 1).source(t)
		mustOpen(t, source)
		if _, err := source.Processes("GPU-9"); err == nil {
			t.Error("no error")
		}
	})
}
