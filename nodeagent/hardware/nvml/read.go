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

// pollState is what earlier polls of a GPU left behind.
type pollState struct {
	// refused are the readers that the GPU does not support, by their names.
	refused map[string]bool
	// fields are those that it has not refused; nil before the first poll.
	fields []field
	// repeated are the results of readers that rest for a while.
	repeated map[string]repeated
}

type repeated struct {
	until  time.Time
	values gpu.Values
}

// read polls one GPU. What it does not support is missing, and not asked for
// again while the session lasts.
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
	if err := device.learn(); err != nil {
		return gpu.Sample{}, err
	}
	return s.sample(device)
}

// sample lets all readers of a GPU add to a sample.
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
	if mustReset { // it answers, so it is not lost
		sample.Action = gpu.ActionReset
		return sample, nil
	}
	if err := failed.concern(&sample); err != nil {
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

// concern returns why a sample is none: nothing vital was read, although the GPU
// supports some of it, or nothing at all.
func (f *failures) concern(sample *gpu.Sample) error {
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

// readLost reports a GPU that could not be asked when the Source was opened. If
// it can be now, the Source must be opened again to use it.
func (s *session) readLost(d *device) (gpu.Sample, error) {
	found, err := s.find(d.info.Index, nil)
	switch {
	case err == nil:
		return gpu.Sample{}, fmt.Errorf("%w: GPU %s answers again", gpu.ErrStale, found.info.UUID)
	case errors.Is(err, gpu.ErrStale):
		return gpu.Sample{}, err
	case errors.Is(err, nvml.ERROR_RESET_REQUIRED):
		return gpu.Sample{UUID: d.info.UUID, Action: gpu.ActionReset}, nil
	default:
		return gpu.Sample{}, err
	}
}

// checkCount notices that GPUs were added or taken away: the driver numbers them
// again then.
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

// poll lets one reader add to the sample, unless it is known that it can't or it
// need not. It returns SUCCESS then, too.
func (s *session) poll(d *device, reader *reader, sample *gpu.Sample) nvml.Return {
	name := reader.String()
	if d.state.refused[name] || s.repeat(d, reader, sample) {
		return nvml.SUCCESS
	}
	ret := reader.read(d, sample)
	if ret == nvml.ERROR_INVALID_ARGUMENT && !d.handleIsValid() {
		return nvml.ERROR_UNINITIALIZED
	}
	if unsupported(ret) {
		if d.state.refused == nil {
			d.state.refused = map[string]bool{}
		}
		d.state.refused[name] = true
		return nvml.SUCCESS
	}
	s.rest(d, reader, sample)
	return ret
}

// handleIsValid tells two meanings of INVALID_ARGUMENT apart: that a GPU was
// taken away, and that an old driver doesn't know what it is asked for.
func (d *device) handleIsValid() bool {
	uuid, ret := d.handle.GetUUID()
	return ret != nvml.ERROR_INVALID_ARGUMENT && (ret != nvml.SUCCESS || uuid == d.info.UUID)
}

// repeat adds the last result of a reader that rests.
func (s *session) repeat(d *device, reader *reader, sample *gpu.Sample) bool {
	last, found := d.state.repeated[reader.String()]
	if !found || !s.Clock.Now().Before(last.until) {
		return false
	}
	maps.Copy(sample.Values, last.values)
	return true
}

// rest keeps what a reader has just added to the sample, if it shall be repeated.
// A reader that failed rests, too: it may have taken its time.
func (s *session) rest(d *device, reader *reader, sample *gpu.Sample) {
	if reader.every <= 0 {
		return
	}
	last := repeated{until: s.Clock.Now().Add(reader.every), values: gpu.Values{}}
	for _, quantity := range reader.quantities {
		if value, found := sample.Values[quantity]; found {
			last.values[quantity] = value
		}
	}
	if d.state.repeated == nil {
		d.state.repeated = map[string]repeated{}
	}
	d.state.repeated[reader.String()] = last
}
