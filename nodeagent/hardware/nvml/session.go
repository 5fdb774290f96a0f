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
	// count is the number of GPUs that the driver had at the start, including those that we
	// may not use.
	count   int
	devices []*device
	// readers are those whose functions the library has.
	readers []reader
	// events is true if the library has the functions for events.
	events bool

	// closing is closed to end the watches, which shutdown waits for: they use the library.
	closing chan struct{}
	watches sync.WaitGroup
}

// device is a GPU.
type device struct {
	info    gpu.Info
	address pciAddress
	// handle is nil if problem isn't.
	handle nvml.Device
	// problem is why the GPU did not answer when the Source was opened.
	problem error
	// missing are the facts that the driver failed to return.
	missing []fact
	opened  baseline
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

// symbols looks up which functions the library has: calling another one would crash the
// process.
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
