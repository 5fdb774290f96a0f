// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// notAvailable is NVML's NVML_VALUE_NOT_AVAILABLE.
const notAvailable = math.MaxUint64

// processList is a call that lists processes with contexts of a kind on a GPU.
type processList struct {
	call string
	read func(nvml.Device) ([]nvml.ProcessInfo, nvml.Return)
}

// processLists has all of them: a process may be in several, with the same memory. The
// clients of an MPS server are in a list of their own, unless the driver lists them with those
// that compute.
func processLists() []processList {
	return []processList{
		{"nvmlDeviceGetComputeRunningProcesses", nvml.Device.GetComputeRunningProcesses},
		{"nvmlDeviceGetGraphicsRunningProcesses", nvml.Device.GetGraphicsRunningProcesses},
		{"nvmlDeviceGetMPSComputeRunningProcesses", nvml.Device.GetMPSComputeRunningProcesses},
	}
}

const processUtilizationCall = "nvmlDeviceGetProcessUtilization"

// sampleWindow is how long samples of the driver describe the present. It keeps them in a
// buffer, and a process that has been idle for long still has its last busy one there.
const sampleWindow = time.Minute

// processState is what is kept between two reads of a GPU's processes.
type processState struct {
	// newest is the time of the newest sample that has been seen, on the driver's clock in
	// microseconds; read is when that was, zero if never.
	newest uint64
	read   time.Time
}

// Processes reads the processes that use one GPU. The first call, and one that follows the
// last one late, does not measure utilization: it only finds out which samples are new next
// time.
func (s *Source) Processes(uuid string) (*gpu.ProcessSample, error) {
	session, err := s.current()
	if err != nil {
		return nil, err
	}
	return session.processes(uuid)
}

func (s *session) processes(uuid string) (*gpu.ProcessSample, error) {
	device := s.device(uuid)
	if device == nil || device.problem != nil {
		return nil, fmt.Errorf("there is no GPU %s that answers", uuid)
	}
	found := processTable{}
	memory, err := s.listProcesses(device, found)
	if err != nil {
		return nil, err
	}
	sample := &gpu.ProcessSample{}
	if memory {
		sample.Measured = append(sample.Measured, gpu.MemoryUsed)
	} else {
		found.drop(gpu.MemoryUsed)
	}
	measured, err := s.measureProcesses(device, found)
	if err != nil {
		return nil, err
	}
	sample.Measured = append(sample.Measured, measured...)
	sample.Processes = found.processes()
	return sample, nil
}

// listProcesses adds the processes with their memory. It returns false if the memory of one
// is not known: a sum would be wrong without it.
func (s *session) listProcesses(d *device, into processTable) (memory bool, err error) {
	memory, listed := true, false
	for _, list := range processLists() {
		if d.state.unsupported[list.call] || !s.symbols.has(list.call) {
			continue
		}
		processes, ret := list.read(d.handle)
		switch {
		case ret == nvml.SUCCESS:
			listed = true
		case unsupported(ret):
			d.state.refuse(list.call)
			continue
		default:
			return false, callError(list.call, ret)
		}
		for i := range processes {
			memory = memory && processes[i].UsedGpuMemory != notAvailable
			into.atLeast(processes[i].Pid, gpu.MemoryUsed, float64(processes[i].UsedGpuMemory))
		}
	}
	if !listed {
		return false, fmt.Errorf("the driver lists no processes of GPU %s: %w", d.info.UUID, gpu.ErrUnsupported)
	}
	return memory, nil
}

// measureProcesses adds how much of the GPU's engines processes have used since the last call,
// and returns the quantities that it has measured.
func (s *session) measureProcesses(d *device, into processTable) ([]gpu.Quantity, error) {
	if d.state.unsupported[processUtilizationCall] || !s.symbols.has(processUtilizationCall) {
		return nil, nil
	}
	state, now := &d.state.processes, s.Clock.Now()
	samples, ret := d.handle.GetProcessUtilization(state.newest)
	switch {
	case ret == nvml.SUCCESS, ret == nvml.ERROR_NOT_FOUND: // which means that all are idle
	case unsupported(ret):
		d.state.refuse(processUtilizationCall)
		return nil, nil
	case fatal(ret):
		return nil, callError(processUtilizationCall, ret)
	default: // for example, more processes than a moment ago: it works the next time
		return nil, nil
	}
	before, known := state.newest, !state.read.IsZero() && now.Sub(state.read) <= sampleWindow
	state.read = now
	// The latest sample of a process is last.
	slices.SortFunc(samples, func(a, b nvml.ProcessUtilizationSample) int { return cmp.Compare(a.TimeStamp, b.TimeStamp) })
	for i := range samples {
		sample := &samples[i]
		if sample.TimeStamp <= before || !plausible(sample) {
			continue
		}
		state.newest = max(state.newest, sample.TimeStamp)
		if known {
			into.set(sample.Pid, gpu.Utilization, float64(sample.SmUtil)*percent)
			into.set(sample.Pid, gpu.MemoryUtilization, float64(sample.MemUtil)*percent)
			into.set(sample.Pid, gpu.EncoderUtilization, float64(sample.EncUtil)*percent)
			into.set(sample.Pid, gpu.DecoderUtilization, float64(sample.DecUtil)*percent)
		}
	}
	if !known {
		return nil, nil
	}
	return []gpu.Quantity{gpu.Utilization, gpu.MemoryUtilization, gpu.EncoderUtilization, gpu.DecoderUtilization}, nil
}

// plausible reports whether a sample is one: drivers leave entries of the buffer unset.
func plausible(sample *nvml.ProcessUtilizationSample) bool {
	const full = 100
	return sample.Pid != 0 && max(sample.SmUtil, sample.MemUtil, sample.EncUtil, sample.DecUtil) <= full
}

// processTable has processes by their PIDs.
type processTable map[uint32]gpu.Values

func (t processTable) values(pid uint32) gpu.Values {
	if t[pid] == nil {
		t[pid] = gpu.Values{}
	}
	return t[pid]
}

func (t processTable) set(pid uint32, quantity gpu.Quantity, value float64) {
	if values := t.values(pid); value > 0 {
		values[quantity] = value
	} else {
		delete(values, quantity)
	}
}

func (t processTable) atLeast(pid uint32, quantity gpu.Quantity, value float64) {
	t.set(pid, quantity, max(value, t.values(pid)[quantity]))
}

func (t processTable) drop(quantity gpu.Quantity) {
	for _, values := range t {
		delete(values, quantity)
	}
}

// processes returns them in the order of their PIDs.
func (t processTable) processes() []gpu.Process {
	processes := make([]gpu.Process, 0, len(t))
	for pid, values := range t {
		processes = append(processes, gpu.Process{PID: int(pid), Values: values})
	}
	slices.SortFunc(processes, func(a, b gpu.Process) int { return a.PID - b.PID })
	return processes
}
