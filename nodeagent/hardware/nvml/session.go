// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// session is a connection to the driver, from a successful nvmlInit to
// nvmlShutdown.
type session struct {
	Options
	library nvml.Interface
	symbols symbols
	// count is the number of GPUs that the driver had at the start, with those
	// that it doesn't let us use.
	count   int
	devices []*device
	// readers are those that the library has the functions for.
	readers []reader
	// events is true if the library has the functions for them.
	events bool

	// closing ends the watches, which shutdown waits for: they use the library.
	closing chan struct{}
	watches sync.WaitGroup
}

// device is a GPU.
type device struct {
	info    gpu.Info
	address pciAddress
	// handle is nil if problem isn't.
	handle nvml.Device
	// problem is why the GPU could not be asked when the Source was opened.
	problem error
	// missing is what the driver failed to tell of the GPU.
	missing []fact
	state   pollState
}

func newSession(options Options, library nvml.Interface) *session {
	s := &session{Options: options, library: library, closing: make(chan struct{})}
	s.symbols = symbols{lookup: library.Extensions().LookupSymbol}
	s.readers = available(readers(options.PCIeInterval), s.symbols)
	s.events = s.symbols.has(eventCalls...)
	return s
}

func (s *session) shutdown() error {
	close(s.closing)
	s.watches.Wait()
	if ret := s.library.Shutdown(); ret != nvml.SUCCESS && ret != nvml.ERROR_UNINITIALIZED {
		return callError("nvmlShutdown", ret)
	}
	return nil
}

func (s *session) device(uuid string) *device {
	for _, device := range s.devices {
		if device.info.UUID == uuid {
			return device
		}
	}
	return nil
}

// symbols tells which functions the library has: to call another one would end
// the process.
type symbols struct {
	lookup func(string) error
}

func (s symbols) has(names ...string) bool {
	for _, name := range names {
		if s.lookup(name) != nil {
			return false
		}
	}
	return true
}
