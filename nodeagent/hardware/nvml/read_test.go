// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func mustRead(tb testing.TB, source *Source, uuid string) gpu.Sample {
	tb.Helper()
	sample, err := source.Read(uuid)
	if err != nil {
		tb.Fatal(err)
	}
	return sample
}

func TestReadConvertsToBaseUnits(t *testing.T) {
	node := newH100s(t, 1)
	source := node.sourceWith(t, Options{PCIeInterval: time.Minute})
	mustOpen(t, source)
	want := gpu.Sample{UUID: "GPU-0", Action: gpu.ActionNone, Values: gpu.Values{
		gpu.Utilization: 0.75, gpu.MemoryUtilization: 0.25, gpu.EncoderUtilization: 0.1, gpu.DecoderUtilization: 0.2,
		gpu.MemoryUsed: 29 << 30, gpu.MemoryFree: 50 << 30, gpu.MemoryReserved: 1 << 30,
		gpu.Temperature: 60, gpu.MemoryTemperature: 70, gpu.Power: 350.5, gpu.PowerLimit: 700, gpu.PowerManagementLimit: 750, gpu.Energy: 5e9,
		gpu.SMClock: 1.98e9, gpu.MemoryClock: 2.619e9, gpu.ThrottleReasons: 4,
		gpu.PCIeReceived: 2e6, gpu.PCIeTransmitted: 1e6, gpu.PCIeReplays: 2,
		gpu.ECCCorrected: 7, gpu.ECCUncorrected: 1, gpu.RemappedRows: 9, gpu.Processes: 3,
		gpu.RowRemapPending: 0, gpu.RowRemapFailure: 0, gpu.MIGMode: 0,
	}}
	if diff := cmp.Diff(want, mustRead(t, source, "GPU-0"), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("unexpected sample (-want +got):\n%s", diff)
	}
}

func TestReadFromAnOldLibrary(t *testing.T) {
	node := newH100s(t, 1)
	node.without("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetFieldValues",
		"nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization", "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetMigMode",
		"nvmlDeviceGetGpuFabricInfo_v4", "nvmlDeviceGetGpuFabricInfoV")
	node.joinFabric(0, nvml.GPU_FABRIC_STATE_COMPLETED, nvml.SUCCESS)
	device := node.gpu(0)
	device.GetPowerManagementLimitFunc, device.GetMigModeFunc, device.GetGpuFabricInfo_v4Func = nil, nil, nil
	device.GetMemoryInfo_v2Func, device.GetCurrentClocksEventReasonsFunc, device.GetFieldValuesFunc = nil, nil, nil
	device.GetEncoderUtilizationFunc, device.GetDecoderUtilizationFunc = nil, nil
	device.GetCurrentClocksThrottleReasonsFunc = func() (uint64, nvml.Return) { return 8, nvml.SUCCESS }
	source := node.source(t)
	mustOpen(t, source)
	want := gpu.Sample{UUID: "GPU-0", Fabric: gpu.FabricJoined, Values: gpu.Values{
		gpu.Utilization: 0.75, gpu.MemoryUtilization: 0.25, gpu.MemoryUsed: 30 << 30, gpu.MemoryFree: 50 << 30,
		gpu.Temperature: 60, gpu.Power: 350.5, gpu.PowerLimit: 700,
		gpu.SMClock: 1.98e9, gpu.MemoryClock: 2.619e9, gpu.ThrottleReasons: 8, gpu.Processes: 3, gpu.FabricReady: 1,
	}}
	if diff := cmp.Diff(want, mustRead(t, source, "GPU-0"), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Errorf("unexpected sample (-want +got):\n%s", diff)
	}
}

func TestWhatAGPURefusesIsNotAskedForAgain(t *testing.T) {
	node := newH100s(t, 2)
	node.gpu(0).GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		node.called("refused")
		return nvml.Utilization{}, nvml.ERROR_NO_PERMISSION
	}
	var asked []int
	answer := node.gpu(0).GetFieldValuesFunc
	node.gpu(0).GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		asked = append(asked, len(values))
		ret := answer(values)
		for i := range values {
			if values[i].FieldId == nvml.FI_DEV_REMAPPED_UNC {
				values[i].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
			}
		}
		return ret
	}
	source := node.source(t)
	mustOpen(t, source)
	for range 3 {
		sample := mustRead(t, source, "GPU-0")
		for _, quantity := range []gpu.Quantity{gpu.Utilization, gpu.MemoryUtilization, gpu.FanSpeed, gpu.RemappedRows} {
			if value, found := sample.Values[quantity]; found {
				t.Errorf("got %v for quantity %d, want none", value, quantity)
			}
		}
	}
	if node.count("refused") != 1 || node.count("fan") != 1 || !cmp.Equal(asked, []int{9, 8, 8}) {
		t.Errorf("got %d calls for utilization, %d for the fan, fields %v", node.count("refused"), node.count("fan"), asked)
	}
	if got := mustRead(t, source, "GPU-1").Values[gpu.Utilization]; got != 0.75 {
		t.Errorf("another GPU has utilization %v, want 0.75", got)
	}
	mustOpen(t, source)
	mustRead(t, source, "GPU-0")
	if node.count("refused") != 2 {
		t.Errorf("got %d calls after opening again, want 2", node.count("refused"))
	}
}

func TestAFailureConcernsOnePollOnly(t *testing.T) {
	node := newH100s(t, 1)
	node.gpu(0).GetPowerUsageFunc = func() (uint32, nvml.Return) {
		if node.called("power") == 1 {
			return 0, nvml.ERROR_UNKNOWN
		}
		return 1000, nvml.SUCCESS
	}
	source := node.source(t)
	mustOpen(t, source)
	if value, found := mustRead(t, source, "GPU-0").Values[gpu.Power]; found {
		t.Errorf("got %v W, want none", value)
	}
	if got := mustRead(t, source, "GPU-0").Values[gpu.Power]; got != 1 {
		t.Errorf("got %v W, want 1", got)
	}
}

func TestReadFails(t *testing.T) {
	power := func(ret nvml.Return) func(*node) {
		return func(n *node) {
			n.gpu(0).GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, ret }
		}
	}
	tests := []struct {
		name  string
		spoil func(*node)
		want  error
	}{
		{name: "the GPU is lost", spoil: power(nvml.ERROR_GPU_IS_LOST), want: gpu.ErrLost},
		{name: "the connection is gone", spoil: power(nvml.ERROR_UNINITIALIZED), want: gpu.ErrStale},
		{name: "the driver is gone", spoil: power(nvml.ERROR_DRIVER_NOT_LOADED), want: gpu.ErrStale},
		{name: "the driver was upgraded", spoil: power(nvml.ERROR_LIB_RM_VERSION_MISMATCH), want: gpu.ErrStale},
		{name: "a field says that the GPU is lost", want: gpu.ErrLost, spoil: func(n *node) {
			n.setFields(0, map[uint32]fieldResult{
				nvml.FI_DEV_MEMORY_TEMP:       {kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: 1},
				nvml.FI_DEV_ECC_SBE_VOL_TOTAL: {value: nvml.ERROR_GPU_IS_LOST},
				nvml.FI_DEV_ECC_DBE_VOL_TOTAL: {value: nvml.ERROR_UNKNOWN},
			})
		}},
		{name: "a GPU was added", want: gpu.ErrStale, spoil: func(n *node) { n.Devices = append(n.Devices, n.Devices[0]) }},
		{name: "GPUs can't be counted", want: gpu.ErrStale, spoil: func(n *node) {
			n.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_UNINITIALIZED }
		}},
		{name: "the handle is no longer valid", want: gpu.ErrStale, spoil: func(n *node) {
			power(nvml.ERROR_INVALID_ARGUMENT)(n)
			n.gpu(0).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_INVALID_ARGUMENT }
		}},
		{name: "the handle is that of another GPU", want: gpu.ErrStale, spoil: func(n *node) {
			power(nvml.ERROR_INVALID_ARGUMENT)(n)
			n.gpu(0).GetUUIDFunc = func() (string, nvml.Return) { return "GPU-other", nvml.SUCCESS }
		}},
		{name: "an old driver does not know the question", spoil: power(nvml.ERROR_INVALID_ARGUMENT)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := newH100s(t, 1)
			source := node.source(t)
			mustOpen(t, source)
			test.spoil(node)
			if _, err := source.Read("GPU-0"); !errors.Is(err, test.want) {
				t.Errorf("got error %v, want %v", err, test.want)
			}
		})
	}
}

func TestReadOfAnUnknownGPU(t *testing.T) {
	source := newH100s(t, 1).source(t)
	mustOpen(t, source)
	if _, err := source.Read("GPU-9"); err == nil || errors.Is(err, gpu.ErrLost) || errors.Is(err, gpu.ErrStale) {
		t.Errorf("unexpected error %v", err)
	}
}

func TestReadFailsIfNothingCanBeRead(t *testing.T) {
	node := newH100s(t, 1)
	node.without("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetEncoderUtilization",
		"nvmlDeviceGetDecoderUtilization", "nvmlDeviceGetTemperature", "nvmlDeviceGetFanSpeed", "nvmlDeviceGetEnforcedPowerLimit",
		"nvmlDeviceGetClockInfo", "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
		"nvmlDeviceGetFieldValues", "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetPowerManagementLimit", "nvmlDeviceGetMigMode",
		"nvmlDeviceGetNvLinkState", "nvmlDeviceGetGpuFabricInfo_v4", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo")
	node.gpu(0).GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_UNKNOWN }
	source := node.source(t)
	mustOpen(t, source)
	if _, err := source.Read("GPU-0"); !errors.Is(err, nvml.ERROR_UNKNOWN) {
		t.Errorf("unexpected error %v", err)
	}
}

func TestReadFailsIfWhatMattersCannotBeRead(t *testing.T) {
	memory := func(ret nvml.Return) func(*server.Device) {
		return func(d *server.Device) {
			d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) { return nvml.Memory_v2{}, ret }
		}
	}
	utilization := func(ret nvml.Return) func(*server.Device) {
		return func(d *server.Device) {
			d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{}, ret }
		}
	}
	tests := []struct {
		name  string
		spoil []func(*server.Device)
		want  error
	}{
		{name: "neither memory nor utilization", want: nvml.ERROR_UNKNOWN,
			spoil: []func(*server.Device){memory(nvml.ERROR_UNKNOWN), utilization(nvml.ERROR_TIMEOUT)}},
		{name: "no memory, and utilization is not supported, as with MIG", want: nvml.ERROR_UNKNOWN,
			spoil: []func(*server.Device){memory(nvml.ERROR_UNKNOWN), utilization(nvml.ERROR_NOT_SUPPORTED)}},
		{name: "memory alone", spoil: []func(*server.Device){memory(nvml.ERROR_UNKNOWN)}},
		{name: "utilization alone", spoil: []func(*server.Device){utilization(nvml.ERROR_UNKNOWN)}},
		{name: "both are not supported", spoil: []func(*server.Device){memory(nvml.ERROR_NOT_SUPPORTED), utilization(nvml.ERROR_NOT_SUPPORTED)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := newH100s(t, 1)
			for _, spoil := range test.spoil {
				spoil(node.gpu(0))
			}
			source := node.source(t)
			mustOpen(t, source)
			for range 3 { // what is not supported is remembered
				if _, err := source.Read("GPU-0"); !errors.Is(err, test.want) {
					t.Errorf("got error %v, want %v", err, test.want)
				}
			}
		})
	}
}

func TestGPUsAreReadAtTheSameTime(t *testing.T) {
	node := newH100s(t, 8)
	source := node.sourceWith(t, Options{PCIeInterval: time.Nanosecond})
	inventory := mustOpen(t, source)
	for range 20 {
		var all sync.WaitGroup
		for _, info := range inventory.GPUs {
			all.Go(func() {
				if _, err := source.Read(info.UUID); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

func TestAction(t *testing.T) {
	action := func(value uint64) func(*node) {
		return func(n *node) {
			results := defaultFields()
			results[nvml.FI_DEV_GET_GPU_RECOVERY_ACTION] = fieldResult{kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: value}
			n.setFields(0, results)
		}
	}
	tests := []struct {
		name  string
		spoil func(*node)
		want  gpu.Action
	}{
		{name: "none", spoil: action(0), want: gpu.ActionNone},
		{name: "reset of the GPU", spoil: action(1), want: gpu.ActionGPUReset},
		{name: "reboot", spoil: action(2), want: gpu.ActionNodeReboot},
		{name: "drain", spoil: action(3), want: gpu.ActionDrainP2P},
		{name: "restart of the machine", spoil: action(7), want: gpu.ActionSystemReboot},
		{name: "one that NVML will add", spoil: action(99), want: gpu.NumberedAction(99)},
		{name: "the driver does not report it", want: gpu.ActionUnknown, spoil: func(n *node) {
			results := defaultFields()
			delete(results, nvml.FI_DEV_GET_GPU_RECOVERY_ACTION)
			n.setFields(0, results)
		}},
		{name: "a call needs a reset first", want: gpu.ActionGPUReset, spoil: func(n *node) {
			n.gpu(0).GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_RESET_REQUIRED }
		}},
		{name: "a call needs a reset first, and the driver more than that", want: gpu.ActionNodeReboot, spoil: func(n *node) {
			action(2)(n)
			n.gpu(0).GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_RESET_REQUIRED }
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			node := newH100s(t, 1)
			test.spoil(node)
			source := node.source(t)
			mustOpen(t, source)
			sample := mustRead(t, source, "GPU-0")
			if sample.Action != test.want {
				t.Errorf("got action %s, want %s", sample.Action, test.want)
			}
			if sample.Values[gpu.Temperature] != 60 {
				t.Errorf("the other values are missing: %v", sample.Values)
			}
		})
	}
}

func TestMemoryWithoutASensorHasNoTemperature(t *testing.T) {
	node := newH100s(t, 1)
	results := defaultFields()
	results[nvml.FI_DEV_MEMORY_TEMP] = fieldResult{kind: nvml.VALUE_TYPE_UNSIGNED_INT}
	node.setFields(0, results)
	source := node.source(t)
	mustOpen(t, source)
	if value, found := mustRead(t, source, "GPU-0").Values[gpu.MemoryTemperature]; found {
		t.Errorf("got %v degrees, want none", value)
	}
}

func TestPCIeThroughputIsMeasuredNowAndThen(t *testing.T) {
	node := newH100s(t, 2)
	source := node.sourceWith(t, Options{PCIeInterval: time.Minute})
	mustOpen(t, source)
	for _, want := range []int{2, 2, 2, 4, 4} {
		sample := mustRead(t, source, "GPU-0")
		if sample.Values[gpu.PCIeTransmitted] != 1e6 || sample.Values[gpu.PCIeReceived] != 2e6 {
			t.Errorf("unexpected values %v", sample.Values)
		}
		if got := node.count("pcie"); got != want {
			t.Errorf("got %d measurements, want %d", got, want)
		}
		node.clock.Step(20 * time.Second)
	}
	mustRead(t, source, "GPU-1")
	if got := node.count("pcie"); got != 6 {
		t.Errorf("got %d measurements with another GPU's, want 6", got)
	}
}

func TestPCIeThroughputIsNotMeasuredUnasked(t *testing.T) {
	node := newH100s(t, 1)
	source := node.source(t)
	mustOpen(t, source)
	mustRead(t, source, "GPU-0")
	if got := node.count("pcie"); got != 0 {
		t.Errorf("got %d measurements, want none", got)
	}
}

func TestFieldValue(t *testing.T) {
	tests := []struct {
		kind nvml.ValueType
		bits uint64
		want float64
	}{
		{kind: nvml.VALUE_TYPE_DOUBLE, bits: math.Float64bits(1.5), want: 1.5},
		{kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: 0xFFFFFFFF, want: 4294967295},
		{kind: nvml.VALUE_TYPE_SIGNED_INT, bits: 0xFFFFFFFF, want: -1},
		{kind: nvml.VALUE_TYPE_UNSIGNED_LONG, bits: 1 << 40, want: 1 << 40},
		{kind: nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, bits: 1 << 50, want: 1 << 50},
		{kind: nvml.VALUE_TYPE_SIGNED_LONG_LONG, bits: math.MaxUint64, want: -1},
		{kind: nvml.VALUE_TYPE_UNSIGNED_SHORT, bits: 65535, want: 65535},
	}
	for _, test := range tests {
		node := newH100s(t, 1)
		node.setFields(0, map[uint32]fieldResult{1: {kind: test.kind, bits: test.bits}})
		values := []nvml.FieldValue{{FieldId: 1}}
		if ret := node.gpu(0).GetFieldValuesFunc(values); ret != nvml.SUCCESS {
			t.Fatal(ret)
		}
		if got := fieldValue(values[0]); got != test.want {
			t.Errorf("type %d: got %v, want %v", test.kind, got, test.want)
		}
	}
}

func TestTimings(t *testing.T) {
	node := newH100s(t, 2)
	node.gpu(0).GetPowerUsageFunc = func() (uint32, nvml.Return) {
		node.clock.Step(3 * time.Millisecond)
		return 0, nvml.SUCCESS
	}
	source := node.sourceWith(t, Options{PCIeInterval: time.Minute})
	mustOpen(t, source)
	timings, err := source.Timings()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for _, timing := range timings {
		calls[timing.UUID]++
		if power := timing.UUID == "GPU-0" && timing.Call == "nvmlDeviceGetPowerUsage"; power != (timing.Took == 3*time.Millisecond) {
			t.Errorf("unexpected timing %+v", timing)
		}
		if absent := timing.Call == "nvmlDeviceGetFanSpeed" || timing.Call == linkStateCall; absent != errors.Is(timing.Err, nvml.ERROR_NOT_SUPPORTED) {
			t.Errorf("unexpected error %v of %s", timing.Err, timing.Call)
		}
	}
	if diff := cmp.Diff(map[string]int{"": 1, "GPU-0": 20, "GPU-1": 20}, calls); diff != "" {
		t.Errorf("unexpected number of calls (-want +got):\n%s", diff)
	}
}

func BenchmarkRead(b *testing.B) {
	node := newH100s(b, 1)
	source := node.source(b)
	mustOpen(b, source)
	for b.Loop() {
		mustRead(b, source, "GPU-0")
	}
}
