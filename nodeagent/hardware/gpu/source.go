// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"context"
	"errors"
)

// Source is where GPUs come from: NVIDIA's library or a simulation.
//
// Calls block as long as the driver does; it can't be interrupted. Watch may run
// at the same time as any other call, and Read at the same time for different
// GPUs. No Read may be under way when Open or Close is called.
type Source interface {
	// Open connects to the driver and finds the GPUs. It fails with an error
	// that is ErrUnavailable while there is no driver or no library; it may be
	// called again later, and after Close.
	Open() (Inventory, error)
	// Read reads what changes of one GPU. An error that is ErrLost says that the
	// GPU no longer answers; one that is ErrStale says that nothing does until
	// the Source is closed and opened again. Any other error concerns this call
	// alone.
	Read(uuid string) (Sample, error)
	// Watch reports events until ctx ends. It returns nil then, or an error that
	// is ErrUnsupported if the GPUs report none.
	Watch(ctx context.Context, report func(Event)) error
	// Close disconnects from the driver. Closing a closed Source does nothing.
	Close() error
}

// What callers of a Source tell apart, with errors.Is.
var (
	ErrUnavailable = errors.New("no GPU driver")
	ErrLost        = errors.New("the GPU is lost")
	ErrStale       = errors.New("the connection to the GPU driver must be renewed")
	// ErrRestart comes with ErrUnavailable if the library in this process's memory
	// does not fit the driver, as after an upgrade. It can't be replaced: if it
	// did fit once, the process must end and be started again.
	ErrRestart     = errors.New("this process must be restarted")
	ErrUnsupported = errors.New("not supported")
)
