// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// The reasons of faults that only consist in an action that the driver requires.
const (
	ReasonResetRequired    = "ResetRequired"
	ReasonRebootRequired   = "RebootRequired"
	ReasonRecoveryRequired = "RecoveryRequired"
)

// reasonOf returns the reason of a fault that only consists in an action.
func reasonOf(action gpu.Action) string {
	switch {
	case action.EndedByReset():
		return ReasonResetRequired
	case action == gpu.ActionNodeReboot || action == gpu.ActionSystemReboot:
		return ReasonRebootRequired
	default:
		return ReasonRecoveryRequired
	}
}

// applyAction applies the action that the driver requires for a GPU. What the driver says
// replaces what the policy has assumed, except after repeated faults.
func (t *Tracker) applyAction(s *state, action gpu.Action, now time.Time) {
	s.reportsAction = s.reportsAction || action != gpu.ActionUnknown
	switch {
	case action.Required():
		t.requireAction(s, action, now)
	case action == gpu.ActionNone:
		s.endAction()
	case s.actionPending && s.fault != nil: // the driver no longer reports it
		t.markUnhealthy(s, s.fault.Reason, now)
		t.requireReset(s)
	}
	s.actionPending = false
}

// requireAction makes a GPU unhealthy until the driver no longer requires the action, or until
// what the action consists in has been observed.
func (t *Tracker) requireAction(s *state, action gpu.Action, now time.Time) {
	t.markUnhealthy(s, reasonOf(action), now)
	if action.EndedByReset() {
		t.requireReset(s)
	}
	if s.fault.Action == action {
		return
	}
	s.change(func(fault *gpu.Fault) {
		if fault.Reason == reasonOf(fault.Action) { // it has no other reason
			fault.Reason = reasonOf(action)
		}
		fault.Action, fault.BootID = action, t.bootID
		if !action.EndedByReset() && fault.Repeated == "" {
			fault.NeedsReset, fault.ResetCounters = false, nil
		}
	})
}

// requireReset makes a GPU unhealthy until a reset has been observed. It must have a fault.
func (t *Tracker) requireReset(s *state) {
	if s.fault.NeedsReset {
		return
	}
	s.change(func(fault *gpu.Fault) {
		fault.NeedsReset, fault.BootID, fault.ResetCounters = true, t.bootID, s.counters
	})
}

// endAction ends what the driver no longer requires. After repeated faults, its word is not
// enough to end the need for a reset.
func (s *state) endAction() {
	if s.fault == nil || !waits(s.fault) {
		return
	}
	s.change(func(fault *gpu.Fault) {
		fault.Action = gpu.ActionUnknown
		if fault.Repeated == "" {
			endReset(fault)
		}
	})
}

// endByReset ends what a reset of the GPU ends. The faults before it no longer count.
func (s *state) endByReset() {
	s.pastFaults = nil
	if s.fault == nil || !waits(s.fault) {
		return
	}
	s.change(func(fault *gpu.Fault) {
		if fault.Action.EndedByReset() {
			fault.Action = gpu.ActionUnknown
		}
		endReset(fault)
	})
}

// endByBoot ends what a boot of the machine ends: everything. If the driver still requires an
// action, the next poll shows it.
func (s *state) endByBoot() {
	s.pastFaults = nil
	s.change(func(fault *gpu.Fault) {
		fault.Action = gpu.ActionUnknown
		endReset(fault)
	})
}

// endReset ends the need for a reset.
func endReset(fault *gpu.Fault) {
	fault.NeedsReset, fault.Repeated, fault.ResetCounters = false, "", nil
	if !waits(fault) {
		fault.BootID = ""
	}
}

// waits reports whether a fault waits for something other than the recovery period.
func waits(fault *gpu.Fault) bool { return fault.NeedsReset || fault.Action.Required() }
