// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

const (
	theGPU = "GPU-1"
	boot   = "boot-1"
	period = time.Minute
)

// story feeds a Tracker with events, minute after minute.
type story struct {
	*testing.T
	tracker *Tracker
	now     time.Time
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{T: t, tracker: newTracker(), now: time.Unix(1_000_000, 0)}
	s.answers(gpu.Sample{})
	return s
}

func newTracker() *Tracker {
	policy := DefaultPolicy()
	policy.RecoveryPeriod = period
	return NewTracker(policy, boot)
}

// restarts restarts the agent, in the same boot.
func (s *story) restarts() {
	left := gpu.History{Fault: s.tracker.Fault(theGPU), PastFaults: s.tracker.PastFaults(theGPU)}
	s.tracker = newTracker()
	s.tracker.Restore(theGPU, left, s.now)
}

// boots restarts the machine, and with it the agent.
func (s *story) boots() {
	s.restarts()
	left := gpu.History{Fault: s.tracker.Fault(theGPU), PastFaults: s.tracker.PastFaults(theGPU)}
	s.tracker = NewTracker(s.tracker.policy, "another-boot")
	s.tracker.Restore(theGPU, left, s.now)
}

func (s *story) answers(sample gpu.Sample) {
	sample.UUID = theGPU
	s.tracker.Observe(sample, s.now)
}

func (s *story) passes(d time.Duration) { s.now = s.now.Add(d) }

func (s *story) xid(number uint64) { s.tracker.Report(gpu.Event{UUID: theGPU, XID: number}, s.now) }

func (s *story) expect(reason string) {
	s.Helper()
	got := ""
	if fault := s.tracker.Fault(theGPU); fault != nil {
		got = fault.Reason
		if fault.NeedsReset {
			got += ", needs reset"
		}
		if fault.Action.Required() {
			got += ", " + fault.Action.String()
		}
		if fault.Repeated != "" {
			got += ", " + fault.Repeated
		}
	}
	if got != reason {
		s.Fatalf("the fault is %q, want %q", got, reason)
	}
}

func energy(joules float64) gpu.Sample { return gpu.Sample{Values: gpu.Values{gpu.Energy: joules}} }

func TestTracker(t *testing.T) {
	t.Parallel()
	stories := map[string]func(*story){
		"a GPU that answers is healthy": func(s *story) {
			s.expect("")
		},
		"an ignored XID is counted and nothing else": func(s *story) {
			s.xid(31)
			s.expect("")
			counts, last := s.tracker.XIDs(theGPU)
			if counts[31] != 1 || last != 31 {
				s.Errorf("counted %v, last %d", counts, last)
			}
		},
		"a critical XID lasts until a counter has gone back and the period has passed": func(s *story) {
			s.answers(energy(100))
			s.xid(79)
			s.expect("XID79, needs reset")
			s.passes(time.Hour)
			s.answers(energy(200))
			s.expect("XID79, needs reset")
			s.answers(energy(5))
			s.expect("XID79")
			s.passes(period - time.Second)
			s.answers(energy(6))
			s.expect("XID79")
			s.passes(time.Second)
			s.answers(energy(7))
			s.expect("")
		},
		"the driver's word that no reset is needed ends the need": func(s *story) {
			s.xid(94)
			s.answers(gpu.Sample{Action: gpu.ActionNone})
			s.expect("XID94")
			s.passes(period)
			s.answers(gpu.Sample{Action: gpu.ActionNone})
			s.expect("")
		},
		"a reset required by the driver is a fault of its own": func(s *story) {
			s.answers(gpu.Sample{Action: gpu.ActionGPUReset})
			s.expect("ResetRequired, needs reset, GPUReset")
			s.passes(time.Hour)
			s.answers(gpu.Sample{Action: gpu.ActionNone})
			s.expect("")
		},
		"trouble during the recovery period starts it over": func(s *story) {
			s.tracker.Hang(theGPU, s.now)
			s.passes(period - time.Second)
			s.answers(gpu.Sample{})
			s.tracker.Hang(theGPU, s.now)
			s.passes(time.Second)
			s.answers(gpu.Sample{})
			s.expect("Hung")
			s.passes(period)
			s.answers(gpu.Sample{})
			s.expect("")
		},
		"a lost GPU that answers again has been reset": func(s *story) {
			s.xid(79)
			s.tracker.Fail(theGPU, gpu.ErrLost, s.now)
			s.expect("XID79, needs reset")
			s.passes(time.Hour)
			s.answers(gpu.Sample{})
			s.expect("XID79")
			s.passes(period)
			s.answers(gpu.Sample{})
			s.expect("")
		},
		"a lost GPU stays lost while it does not answer": func(s *story) {
			s.tracker.Fail(theGPU, gpu.ErrLost, s.now)
			s.expect("Lost")
			s.passes(time.Hour)
			s.tracker.Fail(theGPU, gpu.ErrLost, s.now)
			s.expect("Lost")
			s.answers(gpu.Sample{})
			s.expect("Lost")
		},
		"one failed poll is nothing, three in a row are": func(s *story) {
			for range 2 {
				s.tracker.Fail(theGPU, errors.New("unknown"), s.now)
			}
			s.answers(gpu.Sample{})
			for range 2 {
				s.tracker.Fail(theGPU, errors.New("unknown"), s.now)
			}
			s.expect("")
			s.tracker.Fail(theGPU, errors.New("unknown"), s.now)
			s.expect("Unreadable")
		},
		"an uncorrectable memory error is a fault, those from before are not": func(s *story) {
			s.answers(gpu.Sample{Values: gpu.Values{gpu.ECCUncorrected: 3}})
			s.expect("")
			s.answers(gpu.Sample{Values: gpu.Values{gpu.ECCUncorrected: 4}})
			s.expect("ECC, needs reset")
			s.answers(gpu.Sample{Values: gpu.Values{gpu.ECCUncorrected: 0}})
			s.expect("ECC")
		},
		"an event without a GPU concerns all": func(s *story) {
			s.tracker.Report(gpu.Event{XID: 119}, s.now)
			s.expect("XID119, needs reset")
		},
		"the first reason stays, a need for a reset is added": func(s *story) {
			s.tracker.Hang(theGPU, s.now)
			s.xid(48)
			s.expect("Hung, needs reset")
		},
		"a fault survives the agent": func(s *story) {
			s.tracker.Restore(theGPU, gpu.History{Fault: &gpu.Fault{Reason: "XID79", NeedsReset: true, BootID: boot}}, s.now)
			s.passes(time.Hour)
			s.answers(energy(1))
			s.expect("XID79, needs reset")
		},
		"a reset between two runs of the agent is recognised": func(s *story) {
			s.answers(energy(1000))
			s.xid(79)
			s.answers(energy(1100))
			s.restarts()
			s.answers(energy(5))
			s.expect("XID79")
			s.passes(period)
			s.answers(energy(6))
			s.expect("")
		},
		"so is one if the first poll precedes the restored fault": func(s *story) {
			s.answers(energy(1000))
			s.xid(79)
			left := gpu.History{Fault: s.tracker.Fault(theGPU)}
			s.tracker = newTracker()
			s.answers(energy(5))
			s.tracker.Restore(theGPU, left, s.now)
			s.expect("XID79")
		},
		"a restart of the agent alone is none": func(s *story) {
			s.answers(energy(1000))
			s.xid(79)
			for range 3 {
				s.restarts()
				s.answers(energy(1200))
				s.answers(energy(1300))
				s.expect("XID79, needs reset")
			}
		},
		"nor are counters that are unknown": func(s *story) {
			s.answers(gpu.Sample{Values: gpu.Values{gpu.ECCCorrected: 3}})
			s.xid(79)
			s.restarts()
			s.answers(energy(5))
			s.expect("XID79, needs reset")
		},
		"a fault before the first poll takes its counters from that": func(s *story) {
			s.tracker = newTracker()
			s.xid(79)
			s.answers(energy(1000))
			s.answers(energy(1100))
			if counters := s.tracker.Fault(theGPU).ResetCounters; counters[gpu.Energy] != 1000 {
				s.Errorf("the counters are %v", counters)
			}
			s.restarts()
			s.answers(energy(5))
			s.expect("XID79")
		},
		"memory errors during the restart are not counted twice": func(s *story) {
			errors := func(count float64) gpu.Sample {
				return gpu.Sample{Values: gpu.Values{gpu.ECCUncorrected: count, gpu.Energy: 1000}}
			}
			s.answers(errors(3))
			s.answers(errors(4))
			s.expect("ECC, needs reset")
			if counters := s.tracker.Fault(theGPU).ResetCounters; counters[gpu.ECCUncorrected] != 4 {
				s.Errorf("the counters are %v", counters)
			}
		},
		"a driver that reports whether a reset is needed decides it": func(s *story) {
			s.answers(gpu.Sample{Action: gpu.ActionNone})
			s.xid(94)
			s.expect("XID94")
			s.answers(gpu.Sample{Action: gpu.ActionNone})
			s.expect("XID94")
			s.xid(79)
			s.expect("XID94")
			s.answers(gpu.Sample{Action: gpu.ActionGPUReset})
			s.expect("XID94, needs reset, GPUReset")
			s.answers(gpu.Sample{Action: gpu.ActionNone})
			s.expect("XID94")
		},
		"a driver that no longer reports it leaves the policy to decide": func(s *story) {
			s.answers(gpu.Sample{Action: gpu.ActionNone})
			s.xid(79)
			s.answers(gpu.Sample{})
			s.expect("XID79, needs reset")
		},
		"booting the machine resets its GPUs": func(s *story) {
			s.tracker.Restore(theGPU, gpu.History{Fault: &gpu.Fault{Reason: "XID79", NeedsReset: true, BootID: "boot-0"}}, s.now)
			s.expect("XID79")
			s.passes(period)
			s.answers(energy(1))
			s.expect("")
		},
	}
	tellAll(t, stories)
}

func tellAll(t *testing.T, stories map[string]func(*story)) {
	t.Helper()
	for name, tell := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tell(newStory(t))
		})
	}
}

// Else a GPU that needs a reset would be published with every poll.
func TestAFaultDoesNotMoveWithTheCounters(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.answers(energy(100))
	s.xid(79)
	before := s.tracker.Fault(theGPU)
	for joules := range 100 {
		s.passes(time.Minute)
		s.answers(energy(100 + float64(joules)))
	}
	s.xid(79)
	if diff := cmp.Diff(before, s.tracker.Fault(theGPU)); diff != "" {
		t.Errorf("the fault has changed (-before +after):\n%s", diff)
	}
}

func TestSnapshotsKeepWhatTheyWereGiven(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.xid(79)
	fault := s.tracker.Fault(theGPU)
	counts, _ := s.tracker.XIDs(theGPU)
	s.xid(79)
	s.answers(gpu.Sample{Action: gpu.ActionNone})
	if !fault.NeedsReset || counts[79] != 1 {
		t.Errorf("what was given out has changed: %+v, %v", fault, counts)
	}
}
