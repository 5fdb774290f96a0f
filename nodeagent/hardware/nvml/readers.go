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
		{call: "nvmlDeviceGetComputeRunningProcesses", quantities: []gpu.Quantity{gpu.Processes},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				processes, ret := d.handle.GetComputeRunningProcesses()
				return set(sample, gpu.Processes, len(processes), 1, ret)
			}},
		{call: migModeCall, quantities: []gpu.Quantity{gpu.MIGMode},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				mode, _, ret := d.handle.GetMigMode()
				return set(sample, gpu.MIGMode, mode, 1, ret)
			}},
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

// set adds a value to the sample if the call succeeded, and returns the call's
// status.
func set[N int | uint32 | uint64](sample *gpu.Sample, quantity gpu.Quantity, value N, unit float64, ret nvml.Return) nvml.Return {
	if ret == nvml.SUCCESS {
		sample.Values[quantity] = float64(value) * unit
	}
	return ret
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
		{call: "nvmlDeviceGetEncoderUtilization", quantities: []gpu.Quantity{gpu.EncoderUtilization},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				rate, _, ret := d.handle.GetEncoderUtilization()
				return set(sample, gpu.EncoderUtilization, rate, percent, ret)
			}},
		{call: "nvmlDeviceGetDecoderUtilization", quantities: []gpu.Quantity{gpu.DecoderUtilization},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				rate, _, ret := d.handle.GetDecoderUtilization()
				return set(sample, gpu.DecoderUtilization, rate, percent, ret)
			}},
	}
}

func powerReaders() []reader {
	return []reader{
		{call: "nvmlDeviceGetTemperature", quantities: []gpu.Quantity{gpu.Temperature},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				temperature, ret := d.handle.GetTemperature(nvml.TEMPERATURE_GPU)
				return set(sample, gpu.Temperature, temperature, 1, ret)
			}},
		{call: "nvmlDeviceGetFanSpeed", quantities: []gpu.Quantity{gpu.FanSpeed},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				speed, ret := d.handle.GetFanSpeed()
				return set(sample, gpu.FanSpeed, speed, percent, ret)
			}},
		{call: "nvmlDeviceGetPowerUsage", quantities: []gpu.Quantity{gpu.Power},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				power, ret := d.handle.GetPowerUsage()
				return set(sample, gpu.Power, power, milli, ret)
			}},
		{call: "nvmlDeviceGetEnforcedPowerLimit", quantities: []gpu.Quantity{gpu.PowerLimit},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				limit, ret := d.handle.GetEnforcedPowerLimit()
				return set(sample, gpu.PowerLimit, limit, milli, ret)
			}},
		{call: "nvmlDeviceGetPowerManagementLimit", quantities: []gpu.Quantity{gpu.PowerManagementLimit},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				limit, ret := d.handle.GetPowerManagementLimit()
				return set(sample, gpu.PowerManagementLimit, limit, milli, ret)
			}},
	}
}

func clockReaders() []reader {
	return []reader{
		clockReader("SM", nvml.CLOCK_SM, gpu.SMClock),
		clockReader("MEM", nvml.CLOCK_MEM, gpu.MemoryClock),
		{call: "nvmlDeviceGetCurrentClocksEventReasons", quantities: []gpu.Quantity{gpu.ThrottleReasons},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				reasons, ret := d.handle.GetCurrentClocksEventReasons()
				return set(sample, gpu.ThrottleReasons, reasons, 1, ret)
			}},
		// Its name before driver 535.
		{call: "nvmlDeviceGetCurrentClocksThrottleReasons", quantities: []gpu.Quantity{gpu.ThrottleReasons},
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				reasons, ret := d.handle.GetCurrentClocksThrottleReasons()
				return set(sample, gpu.ThrottleReasons, reasons, 1, ret)
			}},
	}
}

func clockReader(argument string, kind nvml.ClockType, quantity gpu.Quantity) reader {
	return reader{call: "nvmlDeviceGetClockInfo", argument: argument, quantities: []gpu.Quantity{quantity},
		read: func(d *device, sample *gpu.Sample) nvml.Return {
			clock, ret := d.handle.GetClockInfo(kind)
			return set(sample, quantity, clock, megahertz, ret)
		}}
}

func pcieReaders(every time.Duration) []reader {
	one := func(argument string, counter nvml.PcieUtilCounter, quantity gpu.Quantity) reader {
		return reader{call: "nvmlDeviceGetPcieThroughput", argument: argument, quantities: []gpu.Quantity{quantity}, every: every,
			read: func(d *device, sample *gpu.Sample) nvml.Return {
				throughput, ret := d.handle.GetPcieThroughput(counter)
				return set(sample, quantity, throughput, kilobyte, ret)
			}}
	}
	return []reader{
		one("RX", nvml.PCIE_UTIL_RX_BYTES, gpu.PCIeReceived),
		one("TX", nvml.PCIE_UTIL_TX_BYTES, gpu.PCIeTransmitted),
	}
}
