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

// Reasons of faults, beside those made of an XID's number: XID79.
const (
	ReasonLost          = "Lost"
	ReasonHung          = "Hung"
	ReasonECC           = "ECC"
	ReasonUnreadable    = "Unreadable"
	ReasonResetRequired = "ResetRequired"
	// ReasonNoDriver is that of GPUs that were there while there is no driver. It
	// is not a fault of theirs, and no Tracker finds it.
	ReasonNoDriver = "NoDriver"
)

// unreadableAfter is how many polls in a row may fail before a GPU counts as
// broken. One or two do while a GPU is reconfigured.
const unreadableAfter = 3

// Tracker follows the health of a node's GPUs. It is not safe for concurrent
// use.
type Tracker struct {
	policy Policy
	bootID string
	gpus   map[string]*state
}

// state is what is known of one GPU.
type state struct {
	fault *gpu.Fault
	// lastTrouble is when the recovery period began.
	lastTrouble time.Time
	// silent is true while the GPU does not answer.
	silent bool
	// failures counts failed polls since the last one that worked.
	failures int
	// counters are the last values of the counters that a reset sets back; nil
	// before the first poll.
	counters gpu.Values
	// tells is true once the driver has told whether this GPU needs a reset.
	tells bool
	// undecided is true until the driver has told what an XID demands.
	undecided bool
	xids      map[uint64]uint64
	lastXID   uint64
}

// NewTracker returns a Tracker that knows no GPU. bootID identifies the
// machine's current boot; empty if that is unknown.
func NewTracker(policy Policy, bootID string) *Tracker {
	return &Tracker{policy: policy, bootID: bootID, gpus: map[string]*state{}}
}

func (t *Tracker) state(uuid string) *state {
	known := t.gpus[uuid]
	if known == nil {
		known = &state{}
		t.gpus[uuid] = known
	}
	return known
}

// Known makes GPUs known, so that an event that concerns all reaches them.
func (t *Tracker) Known(uuids ...string) {
	for _, uuid := range uuids {
		t.state(uuid)
	}
}

// Restore takes over a fault that an earlier life of the agent has found. The
// recovery period starts over. The GPU may have been reset in between: the agent
// must be stopped for that. Its counters tell, those of the next poll or of the
// last one.
func (t *Tracker) Restore(uuid string, fault gpu.Fault, now time.Time) {
	known := t.state(uuid)
	known.fault, known.lastTrouble = &fault, now
	booted := fault.BootID != t.bootID && t.bootID != ""
	switch {
	case booted, wentBack(fault.ResetCounters, known.counters):
		known.resetDone()
	case known.counters == nil:
		known.counters = fault.ResetCounters
	}
}

// Report takes in an event.
func (t *Tracker) Report(event gpu.Event, now time.Time) {
	if event.UUID != "" {
		t.reportXID(t.state(event.UUID), event.XID, now)
		return
	}
	for _, known := range t.gpus {
		t.reportXID(known, event.XID, now)
	}
}

func (t *Tracker) reportXID(known *state, xid uint64, now time.Time) {
	// Snapshots hold the last map, so it is not changed.
	known.xids = maps.Clone(known.xids)
	if known.xids == nil {
		known.xids = map[uint64]uint64{}
	}
	known.xids[xid]++
	known.lastXID = xid
	reaction := t.policy.reaction(xid)
	if reaction == Ignore {
		return
	}
	// The next poll shows what a driver demands that tells it. To assume the worst
	// until then would be to announce it, and to take it back.
	known.undecided = known.undecided || reaction == Reset && known.tells
	t.trouble(known, fmt.Sprintf("XID%d", xid), reaction == Reset && !known.tells, now)
}

// trouble makes a GPU unhealthy, or prolongs that it is. The first reason stays:
// what follows is often a consequence.
func (t *Tracker) trouble(known *state, reason string, needsReset bool, now time.Time) {
	known.lastTrouble = now
	if known.fault == nil {
		known.fault = &gpu.Fault{Reason: reason, Since: now}
	}
	if needsReset && !known.fault.NeedsReset {
		changed := *known.fault
		changed.NeedsReset, changed.BootID, changed.ResetCounters = true, t.bootID, known.counters
		known.fault = &changed
	}
}

// Hang takes in that a call about a GPU does not return.
func (t *Tracker) Hang(uuid string, now time.Time) {
	t.trouble(t.state(uuid), ReasonHung, false, now)
}

// Fail takes in that a poll of a GPU failed.
func (t *Tracker) Fail(uuid string, err error, now time.Time) {
	known := t.state(uuid)
	if errors.Is(err, gpu.ErrLost) {
		known.silent = true
		t.trouble(known, ReasonLost, false, now)
		return
	}
	known.failures++
	if known.failures >= unreadableAfter {
		t.trouble(known, ReasonUnreadable, false, now)
	}
}

// Observe takes in that a poll of a GPU worked.
func (t *Tracker) Observe(sample gpu.Sample, now time.Time) {
	known := t.state(sample.UUID)
	known.failures = 0
	if known.wasReset(sample) {
		known.settle(now)
	}
	before, counted := known.counters[gpu.ECCUncorrected]
	known.remember(sample)
	if counted && sample.Values[gpu.ECCUncorrected] > before {
		t.trouble(known, ReasonECC, sample.Action != gpu.ActionNone, now)
	}
	t.heed(known, sample.Action, now)
	if known.fault != nil && !known.fault.NeedsReset && now.Sub(known.lastTrouble) >= t.policy.RecoveryPeriod {
		known.fault = nil
	}
}

// heed takes in what the driver wants to be done with a GPU.
func (t *Tracker) heed(known *state, action gpu.Action, now time.Time) {
	known.tells = known.tells || action != gpu.ActionUnknown
	switch action {
	case gpu.ActionNone:
		known.resetDone()
	case gpu.ActionReset:
		t.trouble(known, ReasonResetRequired, true, now)
	case gpu.ActionUnknown:
		if known.undecided && known.fault != nil {
			t.trouble(known, known.fault.Reason, true, now)
		}
	}
	known.undecided = false
}

// resetCounters begin at zero after a reset of the GPU or a reload of its
// driver.
var resetCounters = []gpu.Quantity{gpu.Energy, gpu.ECCCorrected, gpu.ECCUncorrected}

// wasReset reports whether the GPU was reset since the last sample. A GPU that had
// fallen off the bus answers again only after that; else a counter that went
// back tells.
func (s *state) wasReset(sample gpu.Sample) bool {
	return s.silent || wentBack(s.counters, sample.Values)
}

// wentBack reports whether a counter that both have is lower afterwards.
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

// settle begins the recovery period.
func (s *state) settle(now time.Time) {
	s.silent, s.undecided = false, false
	s.counters = nil
	if s.fault != nil {
		s.lastTrouble = now
		s.resetDone()
	}
}

// resetDone ends the need for a reset, if there is one.
func (s *state) resetDone() {
	if s.fault != nil && s.fault.NeedsReset {
		changed := *s.fault
		changed.NeedsReset, changed.BootID, changed.ResetCounters = false, "", nil
		s.fault = &changed
	}
}

// remember keeps the counters of a sample. A need for a reset that was noticed
// before any sample takes them over.
func (s *state) remember(sample gpu.Sample) {
	s.counters = gpu.Values{}
	for _, counter := range resetCounters {
		if value, known := sample.Values[counter]; known {
			s.counters[counter] = value
		}
	}
	if s.fault != nil && s.fault.NeedsReset && s.fault.ResetCounters == nil {
		changed := *s.fault
		changed.ResetCounters = s.counters
		s.fault = &changed
	}
}

// Fault returns why a GPU must not be used, or nil. The result is not changed
// later.
func (t *Tracker) Fault(uuid string) *gpu.Fault { return t.state(uuid).fault }

// Faults returns all faults by UUID.
func (t *Tracker) Faults() map[string]*gpu.Fault {
	faults := map[string]*gpu.Fault{}
	for uuid, known := range t.gpus {
		if known.fault != nil {
			faults[uuid] = known.fault
		}
	}
	return faults
}

// Silent reports whether a GPU does not answer, and not only for a moment.
func (t *Tracker) Silent(uuid string) bool {
	known := t.state(uuid)
	return known.silent || known.failures >= unreadableAfter
}

// XIDs returns how often each XID was reported, and the last one. The result is
// not changed later.
func (t *Tracker) XIDs(uuid string) (counts map[uint64]uint64, last uint64) {
	known := t.state(uuid)
	return known.xids, known.lastXID
}
