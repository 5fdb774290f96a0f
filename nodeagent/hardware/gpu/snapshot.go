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
	// Missing is how many GPUs the machine should have besides Devices: as many as the user
	// expects, or as there are on the PCI bus. Nothing else is known of them. It is 0 while
	// there is a Problem.
	Missing int
}

// Known reports whether the snapshot says which GPUs there are. Before a successful poll an empty
// one does not mean that there are none. If the driver is gone later, all of them have a fault.
func (s *Snapshot) Known() bool { return len(s.Devices) > 0 || s.Answered() }

// Answered reports whether the driver answered at the last poll.
func (s *Snapshot) Answered() bool { return !s.Taken.IsZero() && s.Problem == nil }

// Device is one GPU.
type Device struct {
	Info
	// NVLinkGroup is the same number for GPUs that reach each other over NVLink,
	// or Unknown.
	NVLinkGroup int
	// Values is what the last poll measured; nil if it failed.
	Values Values
	// SliceValues is what the last poll measured of its slices, by UUID.
	SliceValues map[string]Values
	// Processes is what the processes on the GPU used in the last poll; nil if they were not
	// read.
	Processes *ProcessSample
	// Action is the recovery action that the driver reported in the last poll.
	Action Action
	// Fault is why the GPU must not be used; nil if it is healthy.
	Fault *Fault
	// PastFaults are when the GPU became unhealthy because of its own errors, this time
	// included, as far as that matters for the next time. The oldest comes first.
	PastFaults []time.Time
	// XIDs counts the reports of each XID, including ignored ones, since the agent
	// started. LastXID is the latest one, 0 if there was none.
	XIDs    map[uint64]uint64
	LastXID uint64
}

// Healthy reports whether the GPU can be used.
func (d *Device) Healthy() bool { return d.Fault == nil }

// RequiredAction returns the action that the driver requires: it stays required while polls
// fail, and while an agent that has just started has not polled yet.
func (d *Device) RequiredAction() Action {
	if d.Fault != nil && d.Fault.Action.Required() {
		return d.Fault.Action
	}
	return d.Action
}

// History is what a run of the agent leaves to the next one about a GPU.
type History struct {
	// Fault is nil if the GPU was healthy.
	Fault *Fault
	// PastFaults are those of the Device.
	PastFaults []time.Time
}

// Fault is why a GPU must not be used.
type Fault struct {
	// Reason is one word: XID79, Lost, ECC or Hung.
	Reason string
	// Since is when the fault was first noticed.
	Since time.Time
	// Action is what the driver requires for as long as it does; ActionUnknown if nothing.
	Action Action
	// NeedsReset is true until a reset of the GPU has been observed.
	NeedsReset bool
	// Repeated says how often the GPU has failed, "3 times in 24h", if it has failed so often
	// that only a reset makes it healthy again, even if the driver requires none.
	Repeated string
	// BootID is the machine's boot in which the need for a reset or another action was
	// noticed: a boot ends it.
	BootID string
	// ResetCounters are the counters that a reset zeroes, as they were when the need for a
	// reset was noticed: a lower one shows that there was one.
	ResetCounters Values
}
