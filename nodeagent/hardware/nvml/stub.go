// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !cgo

package nvml

import (
	"context"
	"fmt"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Source replaces the real one in a build without cgo, which can't use NVIDIA's library.
type Source struct{}

// New returns a Source that can't be opened.
func New(Options) *Source { return &Source{} }

// Open fails.
func (*Source) Open() (gpu.Inventory, error) {
	return gpu.Inventory{}, fmt.Errorf("%w: this program was built without NVML, rebuild it with CGO_ENABLED=1", gpu.ErrUnavailable)
}

// Read fails.
func (s *Source) Read(string) (gpu.Sample, error) {
	_, err := s.Open()
	return gpu.Sample{}, err
}

// Watch fails.
func (s *Source) Watch(context.Context, func(gpu.Event)) error {
	_, err := s.Open()
	return err
}

// Processes fails.
func (s *Source) Processes(string) (*gpu.ProcessSample, error) {
	_, err := s.Open()
	return nil, err
}

// Timings fails.
func (s *Source) Timings() ([]Timing, error) {
	_, err := s.Open()
	return nil, err
}

// Close does nothing.
func (*Source) Close() error { return nil }
