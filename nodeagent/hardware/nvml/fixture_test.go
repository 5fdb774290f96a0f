// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"k8s.io/klog/v2/ktesting"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// limit is how long a test waits for what takes milliseconds.
const limit = 20 * time.Second

// node is a machine with simulated GPUs, all of whose functions succeed.
type node struct {
	*server.Server
	clock *clocktesting.FakeClock

	mu    sync.Mutex
	calls map[string]int
}

func newH100s(tb testing.TB, count int) *node {
	tb.Helper()
	return newNode(dgxh100.New(), count)
}

func newA100s(tb testing.TB, count int) *node {
	tb.Helper()
	return newNode(dgxa100.New(), count)
}

func newNode(s *server.Server, count int) *node {
	s.Devices = s.Devices[:count]
	n := &node{Server: s, clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), calls: map[string]int{}}
	for index := range count {
		n.prepare(index)
	}
	return n
}

// called counts a call and returns how often it was made.
func (n *node) called(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[name]++
	return n.calls[name]
}

func (n *node) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[name]
}

func (n *node) gpu(index int) *server.Device { return n.Devices[index].(*server.Device) }

// prepare fills in what go-nvml's mocks leave out.
func (n *node) prepare(index int) {
	d := n.gpu(index)
	d.UUID = uuidOf(index)
	d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return pciOf(index), nvml.SUCCESS }
	d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) {
		n.called("utilization")
		return nvml.Utilization{Gpu: 75, Memory: 25}, nvml.SUCCESS
	}
	d.GetEncoderUtilizationFunc = func() (uint32, uint32, nvml.Return) { return 10, 0, nvml.SUCCESS }
	d.GetDecoderUtilizationFunc = func() (uint32, uint32, nvml.Return) { return 20, 0, nvml.SUCCESS }
	d.MemoryInfo = nvml.Memory{Total: 80 << 30, Used: 30 << 30, Free: 50 << 30}
	d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
		return nvml.Memory_v2{Total: 80 << 30, Used: 29 << 30, Free: 50 << 30, Reserved: 1 << 30}, nvml.SUCCESS
	}
	d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 60, nvml.SUCCESS }
	d.GetFanSpeedFunc = func() (uint32, nvml.Return) {
		n.called("fan")
		return 0, nvml.ERROR_NOT_SUPPORTED
	}
	d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 350500, nvml.SUCCESS }
	d.GetEnforcedPowerLimitFunc = func() (uint32, nvml.Return) { return 700000, nvml.SUCCESS }
	d.GetPowerManagementLimitFunc = func() (uint32, nvml.Return) { return 750000, nvml.SUCCESS }
	d.GetClockInfoFunc = func(kind nvml.ClockType) (uint32, nvml.Return) {
		return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1980, nvml.CLOCK_MEM: 2619}[kind], nvml.SUCCESS
	}
	d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 4, nvml.SUCCESS }
	d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return make([]nvml.ProcessInfo, 3), nvml.SUCCESS
	}
	d.GetPcieThroughputFunc = func(counter nvml.PcieUtilCounter) (uint32, nvml.Return) {
		n.called("pcie")
		return 1000 * uint32(1+counter), nvml.SUCCESS
	}
	d.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
	n.joinFabric(index, nvml.GPU_FABRIC_STATE_NOT_SUPPORTED, nvml.SUCCESS)
	n.setFields(index, defaultFields())
}

// joinFabric sets a GPU's state in the fabric of NVSwitches, and the status of joining it.
func (n *node) joinFabric(index, state int, status nvml.Return) {
	n.gpu(index).GetGpuFabricInfo_v4Func = func() (nvml.GpuFabricInfo_v4, nvml.Return) {
		return nvml.GpuFabricInfo_v4{State: uint8(state), Status: uint32(status)}, nvml.SUCCESS
	}
	n.gpu(index).GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
		return nvml.GpuFabricInfo{State: uint8(state), Status: uint32(status)}, nvml.SUCCESS
	}
}

// uuidOf returns the UUID of the GPU with an index.
func uuidOf(index int) string { return fmt.Sprintf("GPU-%d", index) }

// pciOf returns the address of the GPU with an index: bus 0x10 and so on.
func pciOf(index int) nvml.PciInfo {
	pci := nvml.PciInfo{Bus: uint32(0x10 + index)}
	for i, char := range fmt.Sprintf("00000000:%02X:00.0", pci.Bus) {
		pci.BusId[i] = int8(char)
	}
	return pci
}

// fieldResult is what the driver answers to one field.
type fieldResult struct {
	kind  nvml.ValueType
	bits  uint64
	value nvml.Return
}

func defaultFields() map[uint32]fieldResult {
	return map[uint32]fieldResult{
		nvml.FI_DEV_MEMORY_TEMP:              {kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: 70},
		nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION: {kind: nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, bits: 5_000_000_000_000},
		nvml.FI_DEV_PCIE_REPLAY_COUNTER:      {kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: 2},
		nvml.FI_DEV_ECC_SBE_VOL_TOTAL:        {kind: nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, bits: 7},
		nvml.FI_DEV_ECC_DBE_VOL_TOTAL:        {kind: nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, bits: 1},
		nvml.FI_DEV_REMAPPED_UNC:             {kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: 9},
		nvml.FI_DEV_REMAPPED_PENDING:         {kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: 0},
		nvml.FI_DEV_REMAPPED_FAILURE:         {kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: 0},
		nvml.FI_DEV_GET_GPU_RECOVERY_ACTION:  {kind: nvml.VALUE_TYPE_UNSIGNED_INT, bits: 0},
	}
}

// setFields makes a GPU answer fields; it does not support others.
func (n *node) setFields(index int, results map[uint32]fieldResult) {
	n.gpu(index).GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		n.called("fields")
		for i := range values {
			result, found := results[values[i].FieldId]
			if !found {
				result.value = nvml.ERROR_NOT_SUPPORTED
			}
			values[i].ValueType = uint32(result.kind)
			values[i].NvmlReturn = uint32(result.value)
			binary.NativeEndian.PutUint64(values[i].Value[:], result.bits)
			if result.kind == nvml.VALUE_TYPE_UNSIGNED_INT { // the rest of the union is not set
				binary.NativeEndian.PutUint32(values[i].Value[:], uint32(result.bits))
				binary.NativeEndian.PutUint32(values[i].Value[4:], 0xFFFFFFFF)
			}
		}
		return nvml.SUCCESS
	}
}

// without makes the library lack functions, so that calling them would end the
// process. Mocks that are not set panic, which is noticed as well.
func (n *node) without(names ...string) {
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	n.LookupSymbolFunc = func(name string) error {
		if missing[name] {
			return fmt.Errorf("symbol %q not found", name)
		}
		return nil
	}
}

// source returns a Source of the node's GPUs that is closed at the test's end.
func (n *node) source(tb testing.TB) *Source {
	tb.Helper()
	return n.sourceWith(tb, Options{})
}

func (n *node) sourceWith(tb testing.TB, options Options) *Source {
	tb.Helper()
	options.Clock = n.clock
	options.Logger = ktesting.NewLogger(tb, ktesting.DefaultConfig)
	if options.SysFS == nil {
		options.SysFS = fstest.MapFS{}
	}
	if options.ProcFS == nil {
		options.ProcFS = fstest.MapFS{}
	}
	source := newSource(options, n.Server)
	tb.Cleanup(func() {
		if err := source.Close(); err != nil {
			tb.Error(err)
		}
	})
	return source
}

func mustOpen(tb testing.TB, source *Source) gpu.Inventory {
	tb.Helper()
	inventory, err := source.Open()
	if err != nil {
		tb.Fatal(err)
	}
	return inventory
}
