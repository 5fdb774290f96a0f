// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo

package nvml

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Source reads the node's GPUs through NVIDIA's library. See gpu.Source for which calls may
// run concurrently; Timings must run alone.
type Source struct {
	options Options
	library nvml.Interface

	// known are the GPUs that have been found since the process started, so that a lost one
	// keeps its UUID.
	known map[string]*device

	mu sync.Mutex
	// session is nil while the Source is closed. It guards every call of the library
	// except nvmlInit.
	session *session
}

// New returns a closed Source. It does not load the library yet.
func New(options Options) *Source {
	var loading []nvml.LibraryOption
	if options.Library != "" {
		loading = append(loading, nvml.WithLibraryPath(options.Library))
	}
	return newSource(options, nvml.New(loading...))
}

func newSource(options Options, library nvml.Interface) *Source {
	options.setDefaults()
	return &Source{options: options, library: library, known: map[string]*device{}}
}

func (o *Options) setDefaults() {
	if o.SysFS == nil {
		o.SysFS = os.DirFS("/sys")
	}
	if o.ProcFS == nil {
		o.ProcFS = os.DirFS("/proc")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger.GetSink() == nil {
		o.Logger = klog.Background()
	}
}

// Open connects to the driver and finds the GPUs. It closes an open Source first. A lost GPU
// that was found before stays in the inventory.
func (s *Source) Open() (gpu.Inventory, error) {
	if err := s.Close(); err != nil {
		return gpu.Inventory{}, err
	}
	if ret := s.library.Init(); ret != nvml.SUCCESS {
		return gpu.Inventory{}, initError(ret, s.options.Library)
	}
	session := newSession(s.options, s.library)
	inventory, err := session.discover(s.known)
	if err != nil {
		if closeErr := session.shutdown(); closeErr != nil {
			s.options.Logger.Error(closeErr, "Can't disconnect from the GPU driver")
		}
		return gpu.Inventory{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = session
	return inventory, nil
}

// Read reads the measurements of one GPU.
func (s *Source) Read(uuid string) (gpu.Sample, error) {
	session, err := s.current()
	if err != nil {
		return gpu.Sample{}, err
	}
	return session.read(uuid)
}

// Watch reports XIDs until ctx ends. Close waits for it, up to a second.
func (s *Source) Watch(ctx context.Context, report func(gpu.Event)) error {
	session, err := s.startWatch()
	if err != nil {
		return err
	}
	defer session.watches.Done()
	return session.watch(ctx, report)
}

// Timings measures how long each call of Read takes, for each GPU, and the calls that agents
// without a permanent connection make on each poll.
func (s *Source) Timings() ([]Timing, error) {
	session, err := s.current()
	if err != nil {
		return nil, err
	}
	return session.timings(), nil
}

// Close ends a running Watch and disconnects from the driver.
func (s *Source) Close() error {
	s.mu.Lock()
	session := s.session
	s.session = nil
	s.mu.Unlock()
	if session == nil {
		return nil
	}
	return session.shutdown()
}

func (s *Source) current() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil, errClosed()
	}
	return s.session, nil
}

// startWatch registers a Watch with the session before it can be closed.
func (s *Source) startWatch() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil {
		return nil, errClosed()
	}
	s.session.watches.Add(1)
	return s.session, nil
}

func errClosed() error { return fmt.Errorf("%w: it is closed", gpu.ErrStale) }
