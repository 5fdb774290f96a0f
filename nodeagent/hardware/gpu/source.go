// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"errors"
)

// Source provides GPUs: through NVIDIA's library, or as a simulation.
//
// Calls block as long as the driver does, which can't be interrupted. Watch may run
// concurrently with any other call, and Read for different GPUs. No Read may be in flight
// when Open or Close is called.
type Source interface {
	// Open connects to the driver and finds the GPUs. It fails with an error
	// that is ErrUnavailable while there is no driver or no library; it may be
	// called again later, and after Close.
	Open() (Inventory, error)
	// Read reads the measurements of one GPU. ErrLost means that the GPU no longer answers;
	// ErrStale, that the Source must be closed and opened again: if it comes with a sample,
	// the GPU answers but is no longer as the inventory has it; if not, no GPU answers until
	// then. Any other error concerns this call alone.
	Read(uuid string) (Sample, error)
	// Watch reports events until ctx ends. It returns nil then, or an error that
	// is ErrUnsupported if the GPUs report none.
	Watch(ctx context.Context, report func(Event)) error
	// Close disconnects from the driver. Closing a closed Source does nothing.
	Close() error
}

// The errors that callers of a Source distinguish, with errors.Is.
var (
	ErrUnavailable = errors.New("no GPU driver")
	ErrLost        = errors.New("the GPU is lost")
	ErrStale       = errors.New("the connection to the GPU driver must be renewed")
	// ErrRestart comes with ErrUnavailable if the library that this process has loaded does
	// not match the driver, as after an upgrade. It can't be reloaded: if it matched
	// before, the process must be restarted.
	ErrRestart = errors.New("this process must be restarted")
	// ErrInaccessible comes with ErrUnavailable if the process finds no library, or may not use the
	// driver, whether or not the machine has one.
	ErrInaccessible = errors.New("this process has no access to a GPU driver")
	// ErrPaused is why nothing is known of the GPUs while somebody else works on the driver.
	ErrPaused      = errors.New("the GPU driver is left alone")
	ErrUnsupported = errors.New("not supported")
)
