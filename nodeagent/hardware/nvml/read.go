// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// pollState is the state that is kept between polls of a GPU.
type pollState struct {
	// unsupported are the names of the readers, and other calls, that the GPU does not support.
	unsupported map[string]bool
	// fields are those that it supports, as far as known; nil before the first poll.
	fields []field
	// cached are the last results of readers that are not called on every poll.
	cached map[string]cachedValues
	// processes is what Processes keeps.
	processes processState
}

// refuse records that the GPU does not support a call.
func (s *pollState) refuse(call string) {
	if s.unsupported == nil {
		s.unsupported = map[string]bool{}
	}
	s.unsupported[call] = true
}

type cachedValues struct {
	until  time.Time
	values gpu.Values
}

// read polls one GPU. Values that it does not support are missing, and not read again during
// the session.
func (s *session) read(uuid string) (gpu.Sample, error) {
	device := s.device(uuid)
	if device == nil {
		return gpu.Sample{}, fmt.Errorf("there is no GPU %s", uuid)
	}
	if err := s.checkCount(); err != nil {
		return gpu.Sample{}, err
	}
	if device.problem != nil {
		return s.readLost(device)
	}
	if err := device.readMissing(); err != nil {
		return gpu.Sample{}, err
	}
	sample, err := s.sample(device)
	if err != nil {
		return gpu.Sample{}, err
	}
	if err := device.changed(&sample); err != nil || !device.info.MIG {
		return sample, err
	}
	return sample, s.readSlices(device, &sample)
}

// sample reads a sample with all readers.
func (s *session) sample(device *device) (gpu.Sample, error) {
	sample := gpu.Sample{UUID: device.info.UUID, Values: gpu.Values{}}
	var failed failures
	mustReset := false
	for i := range s.readers {
		reader := &s.readers[i]
		ret := s.poll(device, reader, &sample)
		switch {
		case fatal(ret):
			return gpu.Sample{}, callError(reader.String(), ret)
		case ret == nvml.ERROR_RESET_REQUIRED:
			mustReset = true
		case ret != nvml.SUCCESS:
			failed.add(reader, ret)
		}
	}
	if mustReset { // the GPU answers, so it is not lost
		if !sample.Action.Required() {
			sample.Action = gpu.ActionGPUReset
		}
		return sample, nil
	}
	if err := failed.err(&sample); err != nil {
		return gpu.Sample{}, err
	}
	return sample, nil
}

// failures are the first readers that failed, and the first vital one.
type failures struct{ first, vital error }

func (f *failures) add(reader *reader, ret nvml.Return) {
	err := callError(reader.String(), ret)
	if f.first == nil {
		f.first = err
	}
	if f.vital == nil && reader.vital {
		f.vital = err
	}
}

// err returns why a sample is unusable: nothing vital was read, although the GPU supports
// some of it, or nothing at all.
func (f *failures) err(sample *gpu.Sample) error {
	_, memory := sample.Values[gpu.MemoryUsed]
	_, utilization := sample.Values[gpu.Utilization]
	switch {
	case f.vital != nil && !memory && !utilization:
		return f.vital
	case len(sample.Values) == 0:
		return f.first
	default:
		return nil
	}
}

// readLost polls a GPU that did not answer when the Source was opened. If it answers now, the
// Source must be opened again to use it.
func (s *session) readLost(d *device) (gpu.Sample, error) {
	found, err := s.find(d.info.Index, nil)
	switch {
	case err == nil:
		return gpu.Sample{}, fmt.Errorf("%w: GPU %s answers again", gpu.ErrStale, found.info.UUID)
	case errors.Is(err, gpu.ErrStale):
		return gpu.Sample{}, err
	case errors.Is(err, nvml.ERROR_RESET_REQUIRED):
		return gpu.Sample{UUID: d.info.UUID, Action: gpu.ActionGPUReset}, nil
	default:
		return gpu.Sample{}, err
	}
}

// checkCount detects that GPUs were added or removed, which makes the driver renumber them.
func (s *session) checkCount() error {
	count, ret := s.library.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return callError("nvmlDeviceGetCount", ret)
	}
	if count != s.count {
		return fmt.Errorf("%w: there are %d GPUs instead of %d", gpu.ErrStale, count, s.count)
	}
	return nil
}

// poll calls one reader, unless it is unsupported or its cached values are current; it
// returns SUCCESS then, too.
func (s *session) poll(d *device, reader *reader, sample *gpu.Sample) nvml.Return {
	name := reader.String()
	if d.state.unsupported[name] || s.reuse(d, reader, sample) {
		return nvml.SUCCESS
	}
	ret := reader.read(d, sample)
	if ret == nvml.ERROR_INVALID_ARGUMENT && !d.handleIsValid() {
		return nvml.ERROR_UNINITIALIZED
	}
	if unsupported(ret) {
		d.state.refuse(name)
		return nvml.SUCCESS
	}
	s.cache(d, reader, sample)
	return ret
}

// handleIsValid distinguishes two meanings of INVALID_ARGUMENT: that the GPU was removed,
// and that an old driver does not know the argument.
func (d *device) handleIsValid() bool {
	uuid, ret := d.handle.GetUUID()
	return ret != nvml.ERROR_INVALID_ARGUMENT && (ret != nvml.SUCCESS || uuid == d.info.UUID)
}

// reuse adds the cached values of a reader to the sample, if they are still current.
func (s *session) reuse(d *device, reader *reader, sample *gpu.Sample) bool {
	last, found := d.state.cached[reader.String()]
	if !found || !s.Clock.Now().Before(last.until) {
		return false
	}
	maps.Copy(sample.Values, last.values)
	return true
}

// cache stores the values that a reader has just added to the sample, if it is one to be
// cached. The failure of a reader is cached, too: it may have taken long.
func (s *session) cache(d *device, reader *reader, sample *gpu.Sample) {
	if reader.every <= 0 {
		return
	}
	last := cachedValues{until: s.Clock.Now().Add(reader.every), values: gpu.Values{}}
	for _, quantity := range reader.quantities {
		if value, found := sample.Values[quantity]; found {
			last.values[quantity] = value
		}
	}
	if d.state.cached == nil {
		d.state.cached = map[string]cachedValues{}
	}
	d.state.cached[reader.String()] = last
}
