// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// timings measures each call once, including calls that a GPU does not support: those take
// time, too.
func (s *session) timings() []Timing {
	var found []Timing
	measure := func(uuid, call string, do func() nvml.Return) {
		start := s.Clock.Now()
		ret := do()
		timing := Timing{UUID: uuid, Call: call, Took: s.Clock.Since(start)}
		if ret != nvml.SUCCESS {
			timing.Err = callError(call, ret)
		}
		found = append(found, timing)
	}
	measure("", "nvmlDeviceGetCount", func() nvml.Return {
		_, ret := s.library.DeviceGetCount()
		return ret
	})
	for _, known := range s.devices {
		if known.problem != nil {
			continue
		}
		uuid := known.info.UUID
		measure(uuid, "nvmlDeviceGetHandleByIndex", func() nvml.Return {
			_, ret := s.library.DeviceGetHandleByIndex(known.info.Index)
			return ret
		})
		// A copy, so that the state of Read is not changed.
		fresh := &device{info: known.info, handle: known.handle}
		for i := range s.readers {
			reader := &s.readers[i]
			measure(uuid, reader.String(), func() nvml.Return {
				return reader.read(fresh, &gpu.Sample{UUID: uuid, Values: gpu.Values{}})
			})
		}
	}
	return found
}
