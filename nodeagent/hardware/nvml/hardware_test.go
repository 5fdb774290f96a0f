// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2/ktesting"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// TestHardware runs where there are GPUs.
func TestHardware(t *testing.T) {
	source := New(Options{PCIeInterval: time.Second, Logger: ktesting.NewLogger(t, ktesting.DefaultConfig)})
	inventory, err := source.Open()
	if errors.Is(err, gpu.ErrUnavailable) {
		t.Skip("there are no GPUs here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	}()
	t.Logf("driver %+v, NVLinks %v", inventory.Driver, inventory.NVLinks)
	for _, info := range inventory.GPUs {
		t.Logf("%+v", info)
		if info.UUID == "" || info.Product == "" || info.MemoryBytes == 0 || info.PCIBusID == "" || info.ComputeCapability == "" {
			t.Error("something is missing")
		}
		for range 2 {
			start := time.Now()
			sample, err := source.Read(info.UUID)
			t.Logf("read in %v: %+v %v", time.Since(start), sample, err)
			if err == nil {
				checkPlausible(t, info, sample.Values)
			}
		}
	}
	logTimings(t, source)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := source.Watch(ctx, func(event gpu.Event) { t.Logf("%+v", event) }); err != nil && !errors.Is(err, gpu.ErrUnsupported) {
		t.Error(err)
	}
}

func checkPlausible(t *testing.T, info gpu.Info, values gpu.Values) {
	t.Helper()
	ranges := []struct {
		quantity  gpu.Quantity
		low, high float64
	}{
		{gpu.Utilization, 0, 1}, {gpu.MemoryUtilization, 0, 1}, {gpu.EncoderUtilization, 0, 1}, {gpu.DecoderUtilization, 0, 1},
		{gpu.Temperature, 5, 120}, {gpu.MemoryTemperature, 5, 130}, {gpu.FanSpeed, 0, 1.5},
		{gpu.Power, 1, 3000}, {gpu.PowerLimit, 10, 3000}, {gpu.PowerManagementLimit, 10, 3000}, {gpu.SMClock, 1e7, 1e10}, {gpu.MemoryClock, 1e7, 1e11},
		{gpu.Energy, 0, 1e13}, {gpu.PCIeReceived, 0, 1e12}, {gpu.PCIeTransmitted, 0, 1e12},
	}
	for _, r := range ranges {
		if value, found := values[r.quantity]; found && (value < r.low || value > r.high) {
			t.Errorf("quantity %d is %v, which is not in %v to %v", r.quantity, value, r.low, r.high)
		}
	}
	if sum := values[gpu.MemoryUsed] + values[gpu.MemoryFree] + values[gpu.MemoryReserved]; sum != float64(info.MemoryBytes) {
		t.Errorf("the parts of the memory add up to %v, not to %d", sum, info.MemoryBytes)
	}
}

func logTimings(t *testing.T, source *Source) {
	t.Helper()
	timings, err := source.Timings()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(timings, func(a, b Timing) int { return int(b.Took - a.Took) })
	for _, timing := range timings {
		t.Logf("%-50s %10v %v", timing.Call, timing.Took, timing.Err)
	}
}

// TestHardwareIsReleased checks that nothing keeps the driver in use once the Source is closed: it
// could not be replaced.
func TestHardwareIsReleased(t *testing.T) {
	source := New(Options{Logger: ktesting.NewLogger(t, ktesting.DefaultConfig)})
	before := openDevices(t)
	inventory, err := source.Open()
	if errors.Is(err, gpu.ErrUnavailable) {
		t.Skip("there are no GPUs here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range inventory.GPUs {
		if _, err := source.Read(info.UUID); err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := source.Watch(ctx, func(gpu.Event) {}); err != nil && !errors.Is(err, gpu.ErrUnsupported) {
		t.Error(err)
	}
	if len(openDevices(t)) == len(before) {
		t.Error("an open Source has no device file open")
	}
	if err := source.Close(); err != nil {
		t.Error(err)
	}
	if after := openDevices(t); len(after) > len(before) {
		t.Errorf("still open: %q", after)
	}
}

// openDevices returns NVIDIA's device files that this process has open.
func openDevices(t *testing.T) []string {
	t.Helper()
	const folder = "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, entry := range entries {
		if path, err := os.Readlink(filepath.Join(folder, entry.Name())); err == nil && strings.HasPrefix(path, "/dev/nvidia") {
			open = append(open, path)
		}
	}
	return open
}
