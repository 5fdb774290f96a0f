// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// reader reads quantities of a GPU with one call.
type reader struct {
	// call is the function's name in NVIDIA's library; argument is what it reads, if it can
	// read several values.
	call, argument string
	// quantities are what it adds to a sample. A reader is not used if an earlier one in
	// the table already reads them.
	quantities []gpu.Quantity
	// read adds to the sample if it returns SUCCESS.
	read func(*device, *gpu.Sample) nvml.Return
	// vital is true if a poll fails when all vital readers do.
	vital bool
	// every is how long results are cached.
	every time.Duration
}

func (r *reader) String() string {
	if r.argument == "" {
		return r.call
	}
	return r.call + "(" + r.argument + ")"
}

// readers returns the table of all calls that Read makes. The functions that go-nvml selects
// by the library's version also exist without a version number, in every library that has
// a numbered one.
func readers(pcieInterval time.Duration) []reader {
	table := slices.Concat(memoryReaders(), engineReaders(), powerReaders(), clockReaders(), fabricReaders(), []reader{
		linkReader(),
		{call: "nvmlDeviceGetFieldValues", read: readFields, quantities: fieldQuantities()},
		valueReader("nvmlDeviceGetComputeRunningProcesses", gpu.Processes, 1, func(d nvml.Device) (int, nvml.Return) {
			processes, ret := d.GetComputeRunningProcesses()
			return len(processes), ret
		}),
		valueReader(migModeCall, gpu.MIGMode, 1, func(d nvml.Device) (int, nvml.Return) {
			mode, _, ret := d.GetMigMode()
			return mode, ret
		}),
	})
	if pcieInterval > 0 {
		table = append(table, pcieReaders(pcieInterval)...)
	}
	return table
}

// available returns the readers whose functions the library has.
func available(table []reader, symbols symbols) []reader {
	var found []reader
	covered := map[gpu.Quantity]bool{}
	for _, reader := range table {
		if covered[reader.quantities[0]] || !symbols.has(reader.call) {
			continue
		}
		for _, quantity := range reader.quantities {
			covered[quantity] = true
		}
		found = append(found, reader)
	}
	return found
}

// valueReader returns the reader of a single quantity, whose values have a unit.
func valueReader[N int | uint32 | uint64](call string, quantity gpu.Quantity, unit float64, get func(nvml.Device) (N, nvml.Return)) reader {
	return reader{call: call, quantities: []gpu.Quantity{quantity}, read: func(d *device, sample *gpu.Sample) nvml.Return {
		value, ret := get(d.handle)
		if ret == nvml.SUCCESS {
			sample.Values[quantity] = float64(value) * unit
		}
		return ret
	}}
}

// NVML's units.
const (
	percent   = 0.01
	milli     = 0.001
	megahertz = 1e6
	kilobyte  = 1e3
)

func memoryReaders() []reader {
	return []reader{
		{call: "nvmlDeviceGetMemoryInfo_v2", vital: true, quantities: []gpu.Quantity{gpu.MemoryUsed, gpu.MemoryFree, gpu.MemoryReserved},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				memory, ret := d.handle.GetMemoryInfo_v2()
				if ret != nvml.SUCCESS {
					return ret
				}
				// nvml.h contradicts itself on whether "used" includes what
				// is reserved.
				used := memory.Total - min(memory.Total, memory.Free+memory.Reserved)
				sample.Values[gpu.MemoryUsed] = float64(used)
				sample.Values[gpu.MemoryFree] = float64(memory.Free)
				sample.Values[gpu.MemoryReserved] = float64(memory.Reserved)
				return ret
			}},
		// Before driver 510; "used" includes what is reserved.
		{call: "nvmlDeviceGetMemoryInfo", vital: true, quantities: []gpu.Quantity{gpu.MemoryUsed, gpu.MemoryFree},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				memory, ret := d.handle.GetMemoryInfo()
				if ret == nvml.SUCCESS {
					sample.Values[gpu.MemoryUsed] = float64(memory.Used)
					sample.Values[gpu.MemoryFree] = float64(memory.Free)
				}
				return ret
			}},
	}
}

func engineReaders() []reader {
	return []reader{
		{call: "nvmlDeviceGetUtilizationRates", vital: true, quantities: []gpu.Quantity{gpu.Utilization, gpu.MemoryUtilization},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				rates, ret := d.handle.GetUtilizationRates()
				if ret == nvml.SUCCESS {
					sample.Values[gpu.Utilization] = float64(rates.Gpu) * percent
					sample.Values[gpu.MemoryUtilization] = float64(rates.Memory) * percent
				}
				return ret
			}},
		valueReader("nvmlDeviceGetEncoderUtilization", gpu.EncoderUtilization, percent, func(d nvml.Device) (uint32, nvml.Return) {
			rate, _, ret := d.GetEncoderUtilization()
			return rate, ret
		}),
		valueReader("nvmlDeviceGetDecoderUtilization", gpu.DecoderUtilization, percent, func(d nvml.Device) (uint32, nvml.Return) {
			rate, _, ret := d.GetDecoderUtilization()
			return rate, ret
		}),
	}
}

func powerReaders() []reader {
	return []reader{
		valueReader("nvmlDeviceGetTemperature", gpu.Temperature, 1, func(d nvml.Device) (uint32, nvml.Return) {
			return d.GetTemperature(nvml.TEMPERATURE_GPU)
		}),
		valueReader("nvmlDeviceGetFanSpeed", gpu.FanSpeed, percent, nvml.Device.GetFanSpeed),
		valueReader("nvmlDeviceGetPowerUsage", gpu.Power, milli, nvml.Device.GetPowerUsage),
		valueReader("nvmlDeviceGetEnforcedPowerLimit", gpu.PowerLimit, milli, nvml.Device.GetEnforcedPowerLimit),
		valueReader("nvmlDeviceGetPowerManagementLimit", gpu.PowerManagementLimit, milli, nvml.Device.GetPowerManagementLimit),
	}
}

func clockReaders() []reader {
	return []reader{
		clockReader("SM", nvml.CLOCK_SM, gpu.SMClock),
		clockReader("MEM", nvml.CLOCK_MEM, gpu.MemoryClock),
		valueReader("nvmlDeviceGetCurrentClocksEventReasons", gpu.ThrottleReasons, 1, nvml.Device.GetCurrentClocksEventReasons),
		// Its name before driver 535.
		valueReader("nvmlDeviceGetCurrentClocksThrottleReasons", gpu.ThrottleReasons, 1, nvml.Device.GetCurrentClocksThrottleReasons),
	}
}

func clockReader(argument string, kind nvml.ClockType, quantity gpu.Quantity) reader {
	r := valueReader("nvmlDeviceGetClockInfo", quantity, megahertz, func(d nvml.Device) (uint32, nvml.Return) { return d.GetClockInfo(kind) })
	r.argument = argument
	return r
}

func pcieReaders(every time.Duration) []reader {
	throughput := func(argument string, counter nvml.PcieUtilCounter, quantity gpu.Quantity) reader {
		r := valueReader("nvmlDeviceGetPcieThroughput", quantity, kilobyte, func(d nvml.Device) (uint32, nvml.Return) {
			return d.GetPcieThroughput(counter)
		})
		r.argument, r.every = argument, every
		return r
	}
	return []reader{
		throughput("RX", nvml.PCIE_UTIL_RX_BYTES, gpu.PCIeReceived),
		throughput("TX", nvml.PCIE_UTIL_TX_BYTES, gpu.PCIeTransmitted),
	}
}
