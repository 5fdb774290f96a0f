// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"slices"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// Restore restores what a previous run of the agent found. The recovery period starts over. The
// GPU may have been reset in between, since the agent must be stopped for that: its counters
// show it, those of the next poll or of the last one.
func (t *Tracker) Restore(uuid string, history gpu.History, now time.Time) {
	s := t.state(uuid)
	ownFault, ownPast := s.fault, s.pastFaults
	s.pastFaults = history.PastFaults
	if history.Fault != nil {
		s.fault, s.recoveryStart = history.Fault, now
		t.endWhatIsOver(s)
	}
	switch {
	case ownFault == nil:
	case s.fault != nil && waits(s.fault): // the fault has not been interrupted
		t.addNeeds(s, ownFault)
		return
	default:
		s.fault = ownFault
	}
	s.pastFaults = slices.Concat(s.pastFaults, ownPast)
}

// endWhatIsOver ends what a boot or a reset since the previous run has ended.
func (t *Tracker) endWhatIsOver(s *state) {
	rebooted := s.fault.BootID != t.bootID && t.bootID != ""
	switch {
	case rebooted && waits(s.fault):
		s.endByBoot()
	case wentBack(s.fault.ResetCounters, s.counters):
		s.endByReset()
	case s.counters == nil:
		s.counters = s.fault.ResetCounters
	}
	if s.fault.Reason == ReasonFabricNotReady && !waits(s.fault) {
		s.recoveryStart = time.Time{} // as when it was found
	}
}

// addNeeds adds what this run has found a GPU to need to the fault of the previous run.
func (t *Tracker) addNeeds(s *state, own *gpu.Fault) {
	if own.NeedsReset {
		t.requireReset(s)
	}
	if own.Action.Required() {
		s.change(func(fault *gpu.Fault) { fault.Action, fault.BootID = own.Action, t.bootID })
	}
}
