// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/gpu"
)

// Reasons of faults, beside those made of an XID's number: XID79.
const (
	ReasonLost          = "Lost"
	ReasonHung          = "Hung"
	ReasonECC           = "ECC"
	ReasonUnreadable    = "Unreadable"
	ReasonResetRequired = "ResetRequired"
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
	// counters are the last values of the counters that a reset sets back.
	counters gpu.Values
	xids     map[uint64]uint64
	lastXID  uint64
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
// recovery period begins anew.
func (t *Tracker) Restore(uuid string, fault gpu.Fault, now time.Time) {
	if fault.BootID != t.bootID && t.bootID != "" {
		fault.NeedsReset, fault.BootID = false, "" // booting was one
	}
	known := t.state(uuid)
	known.fault, known.lastTrouble = &fault, now
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
	t.trouble(known, fmt.Sprintf("XID%d", xid), reaction == Reset, now)
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
		changed.NeedsReset, changed.BootID = true, t.bootID
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
	if sample.Action == gpu.ActionNone && known.fault != nil {
		known.resetDone() // the driver says that none is needed
	}
	if sample.Action == gpu.ActionReset {
		t.trouble(known, ReasonResetRequired, true, now)
	}
	if before, counted := known.counters[gpu.ECCUncorrected]; counted && sample.Values[gpu.ECCUncorrected] > before {
		t.trouble(known, ReasonECC, sample.Action != gpu.ActionNone, now)
	}
	known.remember(sample)
	if known.fault != nil && !known.fault.NeedsReset && now.Sub(known.lastTrouble) >= t.policy.RecoveryPeriod {
		known.fault = nil
	}
}

// resetCounters begin at zero after a reset of the GPU or a reload of its
// driver.
var resetCounters = []gpu.Quantity{gpu.Energy, gpu.ECCCorrected, gpu.ECCUncorrected}

// wasReset is true if the GPU was reset since the last sample. A GPU that had
// fallen off the bus answers again only after that; else a counter that went
// back tells.
func (s *state) wasReset(sample gpu.Sample) bool {
	if s.silent {
		return true
	}
	for _, counter := range resetCounters {
		before, knownBefore := s.counters[counter]
		after, knownAfter := sample.Values[counter]
		if knownBefore && knownAfter && after < before {
			return true
		}
	}
	return false
}

// settle begins the recovery period.
func (s *state) settle(now time.Time) {
	s.silent = false
	s.counters = nil
	if s.fault != nil {
		s.lastTrouble = now
		s.resetDone()
	}
}

func (s *state) resetDone() {
	if s.fault.NeedsReset {
		changed := *s.fault
		changed.NeedsReset, changed.BootID = false, ""
		s.fault = &changed
	}
}

func (s *state) remember(sample gpu.Sample) {
	s.counters = gpu.Values{}
	for _, counter := range resetCounters {
		if value, known := sample.Values[counter]; known {
			s.counters[counter] = value
		}
	}
}

// Fault returns why a GPU must not be used, or nil. The result is not changed
// later.
func (t *Tracker) Fault(uuid string) *gpu.Fault { return t.state(uuid).fault }

// XIDs returns how often each XID was reported, and the last one. The result is
// not changed later.
func (t *Tracker) XIDs(uuid string) (counts map[uint64]uint64, last uint64) {
	known := t.state(uuid)
	return known.xids, known.lastXID
}
