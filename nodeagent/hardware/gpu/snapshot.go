// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpu

import "time"

// Snapshot is what the agent knows of a node's GPUs. It is immutable once it is published,
// so that any number of readers may share it.
type Snapshot struct {
	// Taken is when the last successful poll ended; zero before the first one.
	Taken time.Time
	// Problem is why nothing is known of the GPUs; nil also if the node has none. It is
	// ErrUnavailable, another error of opening the Source, or that a call hangs.
	Problem error
	Driver  Driver
	// Devices are the GPUs in the order of their indexes.
	Devices []Device
	// NVLinks is the matrix of the Inventory, in the order of Devices.
	NVLinks [][]int
}

// Device is one GPU.
type Device struct {
	Info
	// NVLinkGroup is the same number for GPUs that reach each other over NVLink,
	// or Unknown.
	NVLinkGroup int
	// Values is what the last poll measured; nil if it failed.
	Values Values
	// Fault is why the GPU must not be used; nil if it is healthy.
	Fault *Fault
	// XIDs counts the reports of each XID, including ignored ones, since the agent
	// started. LastXID is the latest one, 0 if there was none.
	XIDs    map[uint64]uint64
	LastXID uint64
}

// Healthy reports whether the GPU can be used.
func (d *Device) Healthy() bool { return d.Fault == nil }

// Fault is why a GPU must not be used.
type Fault struct {
	// Reason is one word: XID79, Lost, ECC or Hung.
	Reason string
	// Since is when the fault was first noticed.
	Since time.Time
	// NeedsReset is true until a reset of the GPU has been observed.
	NeedsReset bool
	// BootID is the machine's boot in which the need for a reset was noticed: a reboot
	// resets the GPU.
	BootID string
	// ResetCounters are the counters that a reset zeroes, as they were when the need for a
	// reset was noticed: a lower one shows that there was one.
	ResetCounters Values
}
