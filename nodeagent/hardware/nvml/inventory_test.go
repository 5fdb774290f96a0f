// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"errors"
	"testing"
	"testing/fstest"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func TestInventory(t *testing.T) {
	node := newH100s(t, 2)
	node.gpu(1).Minor = 5
	sysFS := fstest.MapFS{
		"bus/pci/devices/0000:10:00.0/numa_node": {Data: []byte("1\n")},
		"bus/pci/devices/0000:11:00.0/numa_node": {Data: []byte("-1\n")},
	}
	got := mustOpen(t, node.sourceWith(t, Options{SysFS: sysFS}))
	want := gpu.Inventory{
		Driver: gpu.Driver{Version: "550.54.15", CUDA: "12.4"},
		GPUs: []gpu.Info{
			{Index: 0, UUID: "GPU-0", Product: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 << 30, PCIBusID: "00000000:10:00.0",
				Minor: 0, NUMANode: 1, ComputeCapability: "9.0"},
			{Index: 1, UUID: "GPU-1", Product: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 << 30, PCIBusID: "00000000:11:00.0",
				Minor: 5, NUMANode: gpu.Unknown, ComputeCapability: "9.0"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected inventory (-want +got):\n%s", diff)
	}
}

func TestInventoryOfAnOldLibraryLeavesOutWhatItDoesNotTell(t *testing.T) {
	node := newA100s(t, 1)
	node.without("nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetMinorNumber", "nvmlSystemGetCudaDriverVersion",
		"nvmlDeviceGetNvLinkState", "nvmlDeviceGetMigMode")
	device := node.gpu(0)
	device.GetCudaComputeCapabilityFunc, device.GetMinorNumberFunc, device.GetMigModeFunc = nil, nil, nil
	device.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) {
		return nvml.PciInfo{Domain: 0x10000, Bus: 0x1b, Device: 3}, nvml.SUCCESS
	}
	node.SystemGetCudaDriverVersionFunc = nil
	sysFS := fstest.MapFS{"bus/pci/devices/10000:1b:03.0/numa_node": {Data: []byte("4\n")}}

	got := mustOpen(t, node.sourceWith(t, Options{SysFS: sysFS}))
	want := gpu.Info{UUID: "GPU-0", Product: "Mock NVIDIA A100-SXM4-40GB", MemoryBytes: 80 << 30,
		PCIBusID: "00010000:1B:03.0", Minor: gpu.Unknown, NUMANode: 4}
	if diff := cmp.Diff(want, got.GPUs[0]); diff != "" {
		t.Errorf("unexpected GPU (-want +got):\n%s", diff)
	}
	if got.Driver.CUDA != "" || got.NVLinks != nil {
		t.Errorf("got CUDA %q and NVLinks %v, want none", got.Driver.CUDA, got.NVLinks)
	}
}

func TestOpenFailsWithoutADriver(t *testing.T) {
	tests := []struct {
		ret     nvml.Return
		restart bool
	}{
		{ret: nvml.ERROR_LIBRARY_NOT_FOUND},
		{ret: nvml.ERROR_DRIVER_NOT_LOADED},
		{ret: nvml.ERROR_NO_PERMISSION},
		{ret: nvml.ERROR_GPU_NOT_FOUND},
		{ret: nvml.ERROR_UNKNOWN},
		{ret: nvml.ERROR_LIB_RM_VERSION_MISMATCH, restart: true},
	}
	for _, test := range tests {
		t.Run(test.ret.Error(), func(t *testing.T) {
			node := newH100s(t, 1)
			node.InitFunc = func() nvml.Return { return test.ret }
			// After a failure, each of these would end the process.
			node.ShutdownFunc, node.DeviceGetCountFunc, node.ExtensionsFunc = nil, nil, nil
			source := node.source(t)
			_, err := source.Open()
			if !errors.Is(err, gpu.ErrUnavailable) || !errors.Is(err, test.ret) || errors.Is(err, gpu.ErrRestart) != test.restart {
				t.Errorf("unexpected error %v", err)
			}
			if _, err := source.Read("GPU-0"); !errors.Is(err, gpu.ErrStale) {
				t.Errorf("Read: unexpected error %v", err)
			}
			if err := source.Watch(t.Context(), nil); !errors.Is(err, gpu.ErrStale) {
				t.Errorf("Watch: unexpected error %v", err)
			}
			if _, err := source.Timings(); !errors.Is(err, gpu.ErrStale) {
				t.Errorf("Timings: unexpected error %v", err)
			}
			if err := source.Close(); err != nil {
				t.Errorf("Close: unexpected error %v", err)
			}
		})
	}
}

func TestOpenDisconnectsWhenItFailsLater(t *testing.T) {
	node := newH100s(t, 1)
	node.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	if _, err := node.source(t).Open(); !errors.Is(err, nvml.ERROR_UNKNOWN) {
		t.Errorf("unexpected error %v", err)
	}
	if got := len(node.ShutdownCalls()); got != 1 {
		t.Errorf("got %d calls of nvmlShutdown, want 1", got)
	}
}

func TestCloseTwice(t *testing.T) {
	node := newH100s(t, 1)
	source := node.source(t)
	mustOpen(t, source)
	mustOpen(t, source) // closes first
	for range 2 {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := len(node.ShutdownCalls()); got != 2 {
		t.Errorf("got %d calls of nvmlShutdown, want 2", got)
	}
}

func TestANodeWithoutGPUs(t *testing.T) {
	inventory := mustOpen(t, newH100s(t, 0).source(t))
	if len(inventory.GPUs) != 0 || inventory.NVLinks != nil {
		t.Errorf("unexpected inventory %v", inventory)
	}
}

func TestALostGPUKeepsItsPlace(t *testing.T) {
	node := newH100s(t, 3)
	source := node.source(t)
	before := mustOpen(t, source)

	found := node.DeviceGetHandleByIndexFunc
	node.DeviceGetHandleByIndexFunc = func(index int) (nvml.Device, nvml.Return) {
		if index == 1 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return found(index)
	}
	for range 2 { // it is known after several times, too
		if diff := cmp.Diff(before, mustOpen(t, source)); diff != "" {
			t.Errorf("unexpected inventory (-want +got):\n%s", diff)
		}
	}
	if _, err := source.Read("GPU-1"); !errors.Is(err, gpu.ErrLost) {
		t.Errorf("unexpected error %v", err)
	}
	if _, err := source.Read("GPU-2"); err != nil {
		t.Errorf("another GPU: unexpected error %v", err)
	}

	node.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_UNINITIALIZED }
	if _, err := source.Read("GPU-1"); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("without a connection: unexpected error %v", err)
	}
	node.DeviceGetHandleByIndexFunc = found
	if _, err := source.Read("GPU-1"); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("after the reset: unexpected error %v", err)
	}
	mustOpen(t, source)
	if _, err := source.Read("GPU-1"); err != nil {
		t.Errorf("after opening again: unexpected error %v", err)
	}
}

func TestAGPUThatWasNeverSeenIsLeftOut(t *testing.T) {
	node := newH100s(t, 2)
	node.gpu(0).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	source := node.source(t)
	inventory := mustOpen(t, source)
	if len(inventory.GPUs) != 1 || inventory.GPUs[0].Index != 1 {
		t.Errorf("unexpected GPUs %v", inventory.GPUs)
	}
	node.gpu(1).GetNameFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	if inventory, err := node.source(t).Open(); !errors.Is(err, gpu.ErrLost) {
		t.Errorf("unexpected error %v, inventory %v", err, inventory)
	}
}

func TestAGPUThatMustBeResetBeforeItCanBeOpened(t *testing.T) {
	node := newH100s(t, 1)
	source := node.source(t)
	mustOpen(t, source)
	node.DeviceGetHandleByIndexFunc = func(int) (nvml.Device, nvml.Return) { return nil, nvml.ERROR_RESET_REQUIRED }
	mustOpen(t, source)
	sample, err := source.Read("GPU-0")
	if diff := cmp.Diff(gpu.Sample{UUID: "GPU-0", Action: gpu.ActionGPUReset}, sample); diff != "" || err != nil {
		t.Errorf("unexpected error %v, sample (-want +got):\n%s", err, diff)
	}
}

func TestAFactThatTheDriverTellsLaterIsFound(t *testing.T) {
	node := newH100s(t, 2)
	tellName := node.gpu(1).GetNameFunc
	fail := func() (string, nvml.Return) { return "", nvml.ERROR_UNKNOWN }
	node.gpu(1).GetNameFunc = fail
	source := node.source(t)
	if got := mustOpen(t, source).GPUs[1].Product; got != "" {
		t.Errorf("the product is %q", got)
	}
	mustRead(t, source, "GPU-1")
	node.gpu(1).GetNameFunc = tellName
	if _, err := source.Read("GPU-1"); !errors.Is(err, gpu.ErrStale) {
		t.Errorf("unexpected error %v", err)
	}
	node.gpu(1).GetNameFunc = fail // a fact is read only once
	for range 2 {
		if got := mustOpen(t, source).GPUs[1].Product; got != "NVIDIA H100 80GB HBM3" {
			t.Errorf("the product is %q", got)
		}
	}
	mustRead(t, source, "GPU-1")
}

func TestAFactThatTheDriverDoesNotKnowIsNotAskedForAgain(t *testing.T) {
	node := newH100s(t, 1)
	node.gpu(0).GetMinorNumberFunc = func() (int, nvml.Return) {
		node.called("minor")
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	source := node.source(t)
	mustOpen(t, source)
	for range 3 {
		mustRead(t, source, "GPU-0")
	}
	if got := node.count("minor"); got != 1 {
		t.Errorf("got %d calls, want 1", got)
	}
}

func TestWithoutALoggerNothingIsDropped(t *testing.T) {
	source := New(Options{})
	if source.options.Logger.GetSink() == nil {
		t.Error("what is logged is dropped")
	}
}
