// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// The reasons of faults of memory rows and of the fabric of NVSwitches.
const (
	// ReasonRowRemapFailure: there is no spare row for a broken one: the GPU must be replaced.
	ReasonRowRemapFailure = "RowRemapFailure"
	// ReasonRowRemapPending: broken rows are replaced at the next reset.
	ReasonRowRemapPending = "RowRemapPending"
	// ReasonFabricNotReady: the GPU has not joined the fabric yet.
	ReasonFabricNotReady = "FabricNotReady"
	// ReasonFabricFailed: joining the fabric has failed.
	ReasonFabricFailed = "FabricFailed"
)

// observeRows records the state of the memory's rows. A failure lasts as long as the driver
// reports it; a poll that could not read it changes nothing.
func (t *Tracker) observeRows(s *state, sample *gpu.Sample, now time.Time) {
	if failed, known := sample.Values[gpu.RowRemapFailure]; known {
		s.remapFailed = failed > 0
	}
	if s.remapFailed {
		t.markUnhealthy(s, ReasonRowRemapFailure, now)
		// The XID that precedes it does not say that the GPU must be replaced.
		if s.fault.Reason != ReasonRowRemapFailure {
			s.change(func(fault *gpu.Fault) { fault.Reason = ReasonRowRemapFailure })
		}
	}
	// Programs that do not use the row are not affected, so a driver that requires no action
	// is believed.
	if sample.Values[gpu.RowRemapPending] > 0 && sample.Action != gpu.ActionNone {
		t.markUnhealthy(s, ReasonRowRemapPending, now)
		t.requireReset(s)
	}
}

// observeFabric records the state in the fabric. A GPU that has not joined it yet is not
// broken: CUDA can't start until it has (error 802) and can from then on. So it is healthy at
// once, unless there is something else; otherwise every boot would cost a recovery period.
func (t *Tracker) observeFabric(s *state, fabric gpu.Fabric, now time.Time) {
	if fabric != gpu.FabricUnknown {
		s.fabricPending = fabric == gpu.FabricNotReady
	}
	switch {
	case fabric == gpu.FabricFailed:
		t.markUnhealthy(s, ReasonFabricFailed, now)
	case s.fabricPending && s.fault == nil:
		s.fault = &gpu.Fault{Reason: ReasonFabricNotReady, Since: now}
		s.recoveryStart = time.Time{} // long ago
	}
}
