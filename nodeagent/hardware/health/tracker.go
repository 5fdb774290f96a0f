// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// The reasons of faults, besides those derived from an XID's number: XID79.
const (
	ReasonLost       = "Lost"
	ReasonHung       = "Hung"
	ReasonECC        = "ECC"
	ReasonUnreadable = "Unreadable"
	// ReasonNoDriver is the reason for known GPUs while there is no driver. It is not a
	// fault of the GPUs, and no Tracker reports it.
	ReasonNoDriver = "NoDriver"
)

// unreadableAfter is how many polls in a row must fail before a GPU is unhealthy. One or two
// fail while a GPU is reconfigured.
const unreadableAfter = 3

// Tracker tracks the health of a node's GPUs. It is not safe for concurrent use.
type Tracker struct {
	policy Policy
	bootID string
	gpus   map[string]*state
}

// state is the state of one GPU.
type state struct {
	fault *gpu.Fault
	// recoveryStart is when the recovery period last started.
	recoveryStart time.Time
	// silent is true while the GPU does not answer.
	silent bool
	// failures counts failed polls since the last one that worked.
	failures int
	// counters are the last values of the counters that a reset zeroes; nil before the
	// first poll.
	counters gpu.Values
	// reportsAction is true once the driver has reported whether this GPU needs a reset.
	reportsAction bool
	// actionPending is true from an XID that may need a reset until the next successful
	// poll, if the driver reports the required action.
	actionPending bool
	// remapFailed is true while the driver reports that rows of the memory can't be replaced,
	// fabricPending while it reports that the GPU has not joined the fabric yet.
	remapFailed, fabricPending bool
	// pastFaults are when the GPU became unhealthy because of its own errors. The slice is
	// never changed, as snapshots share it.
	pastFaults []time.Time
	xids       map[uint64]uint64
	lastXID    uint64
}

// change changes the fault. Snapshots share the old one, so it is copied.
func (s *state) change(how func(*gpu.Fault)) {
	changed := *s.fault
	how(&changed)
	s.fault = &changed
}

// NewTracker returns a Tracker without GPUs. bootID identifies the machine's current boot;
// empty if unknown.
func NewTracker(policy Policy, bootID string) *Tracker {
	return &Tracker{policy: policy, bootID: bootID, gpus: map[string]*state{}}
}

func (t *Tracker) state(uuid string) *state {
	s := t.gpus[uuid]
	if s == nil {
		s = &state{}
		t.gpus[uuid] = s
	}
	return s
}

// Known adds GPUs, so that events that concern all GPUs reach them.
func (t *Tracker) Known(uuids ...string) {
	for _, uuid := range uuids {
		t.state(uuid)
	}
}

// Report records an event.
func (t *Tracker) Report(event gpu.Event, now time.Time) {
	if event.UUID != "" {
		t.addXID(t.state(event.UUID), event.XID, now)
		return
	}
	for _, s := range t.gpus {
		t.addXID(s, event.XID, now)
	}
}

func (t *Tracker) addXID(s *state, xid uint64, now time.Time) {
	// Snapshots share the map, so it is copied.
	s.xids = maps.Clone(s.xids)
	if s.xids == nil {
		s.xids = map[uint64]uint64{}
	}
	s.xids[xid]++
	s.lastXID = xid
	reaction := t.policy.reaction(xid)
	if reaction == Ignore {
		return
	}
	// A driver that reports the required action does so at the next poll. Assuming a reset
	// until then would publish a need for one that may not exist.
	s.actionPending = s.actionPending || reaction == Reset && s.reportsAction
	t.markUnhealthy(s, fmt.Sprintf("XID%d", xid), now)
	if reaction == Reset && !s.reportsAction {
		t.requireReset(s)
	}
	t.countFault(s)
}

// markUnhealthy makes a GPU unhealthy, or restarts its recovery period. The first reason
// stays: later ones are often consequences.
func (t *Tracker) markUnhealthy(s *state, reason string, now time.Time) {
	s.recoveryStart = now
	if s.fault == nil {
		s.fault = &gpu.Fault{Reason: reason, Since: now}
	}
}

// Hang records that a call about a GPU does not return.
func (t *Tracker) Hang(uuid string, now time.Time) {
	t.markUnhealthy(t.state(uuid), ReasonHung, now)
}

// Fail records that a poll of a GPU failed.
func (t *Tracker) Fail(uuid string, err error, now time.Time) {
	s := t.state(uuid)
	if errors.Is(err, gpu.ErrLost) {
		s.silent = true
		t.markUnhealthy(s, ReasonLost, now)
		return
	}
	s.failures++
	if s.failures >= unreadableAfter {
		t.markUnhealthy(s, ReasonUnreadable, now)
	}
}

// Observe records a successful poll of a GPU.
func (t *Tracker) Observe(sample gpu.Sample, now time.Time) {
	s := t.state(sample.UUID)
	s.failures = 0
	if s.wasReset(sample) {
		s.startRecovery(now)
	}
	t.observeMemory(s, &sample, now)
	t.observeRows(s, &sample, now)
	t.observeFabric(s, sample.Fabric, now)
	t.applyAction(s, sample.Action, now)
	if t.recovered(s, now) {
		s.fault = nil
	}
}

// observeMemory records the counters of a sample, and memory errors since the last one.
func (t *Tracker) observeMemory(s *state, sample *gpu.Sample, now time.Time) {
	before, counted := s.counters[gpu.ECCUncorrected]
	s.recordCounters(sample)
	if !counted || sample.Values[gpu.ECCUncorrected] <= before {
		return
	}
	t.markUnhealthy(s, ReasonECC, now)
	if sample.Action != gpu.ActionNone {
		t.requireReset(s)
	}
	t.countFault(s)
}

// recovered reports whether a GPU that was unhealthy is healthy again.
func (t *Tracker) recovered(s *state, now time.Time) bool {
	return s.fault != nil && !waits(s.fault) && !s.fabricPending && now.Sub(s.recoveryStart) >= t.policy.RecoveryPeriod
}

// resetCounters restart at zero after a reset of the GPU or a reload of its driver.
var resetCounters = []gpu.Quantity{gpu.Energy, gpu.ECCCorrected, gpu.ECCUncorrected}

// wasReset reports whether the GPU was reset since the last sample. A GPU that had fallen
// off the bus answers again only after a reset; otherwise a lower counter shows it.
func (s *state) wasReset(sample gpu.Sample) bool {
	return s.silent || wentBack(s.counters, sample.Values)
}

// wentBack reports whether any counter in both is lower afterwards.
func wentBack(before, after gpu.Values) bool {
	for _, counter := range resetCounters {
		old, knownBefore := before[counter]
		now, knownAfter := after[counter]
		if knownBefore && knownAfter && now < old {
			return true
		}
	}
	return false
}

// startRecovery starts the recovery period after a reset.
func (s *state) startRecovery(now time.Time) {
	s.silent, s.actionPending = false, false
	s.counters = nil
	if s.fault != nil {
		s.recoveryStart = now
	}
	s.endByReset()
}

// recordCounters stores the counters of a sample, also in a fault that needed a reset before
// the first sample.
func (s *state) recordCounters(sample *gpu.Sample) {
	s.counters = gpu.Values{}
	for _, counter := range resetCounters {
		if value, known := sample.Values[counter]; known {
			s.counters[counter] = value
		}
	}
	if s.fault != nil && s.fault.NeedsReset && s.fault.ResetCounters == nil {
		s.change(func(fault *gpu.Fault) { fault.ResetCounters = s.counters })
	}
}

// Fault returns why a GPU must not be used, or nil. The result is immutable.
func (t *Tracker) Fault(uuid string) *gpu.Fault { return t.state(uuid).fault }

// PastFaults returns when a GPU became unhealthy because of its own errors, as far as that
// matters for its escalation. The result is immutable.
func (t *Tracker) PastFaults(uuid string) []time.Time { return t.state(uuid).pastFaults }

// Faults returns all faults by UUID.
func (t *Tracker) Faults() map[string]*gpu.Fault {
	faults := map[string]*gpu.Fault{}
	for uuid, s := range t.gpus {
		if s.fault != nil {
			faults[uuid] = s.fault
		}
	}
	return faults
}

// Silent reports whether a GPU has stopped answering.
func (t *Tracker) Silent(uuid string) bool {
	s := t.state(uuid)
	return s.silent || s.failures >= unreadableAfter
}

// XIDs returns how often each XID was reported, and the last one. The result is immutable.
func (t *Tracker) XIDs(uuid string) (counts map[uint64]uint64, last uint64) {
	s := t.state(uuid)
	return s.xids, s.lastXID
}
