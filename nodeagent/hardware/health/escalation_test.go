// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// heals lets the recovery period pass, with a driver that requires nothing.
func (s *story) heals() {
	s.passes(period)
	s.requires(gpu.ActionNone)
}

// fails makes the GPU unhealthy, and healthy again, by an XID after which the driver requires
// nothing.
func (s *story) fails(times int) {
	s.requires(gpu.ActionNone)
	for range times {
		s.xid(94)
		s.heals()
	}
}

func TestEscalation(t *testing.T) {
	t.Parallel()
	tellAll(t, map[string]func(*story){
		"the third fault in a day lasts until a reset": func(s *story) {
			s.answers(energy(100))
			s.fails(2)
			s.expect("")
			s.xid(94)
			s.expect("XID94, needs reset, 3 times in 24h")
			s.passes(100 * time.Hour)
			s.requires(gpu.ActionNone)
			s.expect("XID94, needs reset, 3 times in 24h")
			s.answers(energy(100))
			s.answers(energy(1))
			s.expect("XID94")
			s.heals()
			s.expect("")
		},
		"the faults before the reset no longer count": func(s *story) {
			s.fails(3)
			s.answers(energy(100))
			s.answers(energy(1))
			s.heals()
			s.fails(2)
			s.expect("")
			s.fails(1)
			s.expect("XID94, needs reset, 3 times in 24h")
		},
		"faults of more than a day ago don't count": func(s *story) {
			s.fails(2)
			s.passes(24 * time.Hour)
			s.fails(2)
			s.expect("")
			s.fails(1)
			s.expect("XID94, needs reset, 3 times in 24h")
		},
		"ignored XIDs don't count": func(s *story) {
			for range 10 {
				s.xid(31)
				s.heals()
			}
			s.fails(2)
			s.expect("")
		},
		"nor does the one that reports another recovery action": func(s *story) {
			for range 10 {
				s.requires(gpu.ActionGPUReset)
				s.xid(154)
				s.requires(gpu.ActionNone)
				s.xid(154)
				s.heals()
			}
			s.expect("")
		},
		"an uninterrupted fault counts once": func(s *story) {
			s.requires(gpu.ActionNone)
			for range 10 {
				s.xid(94)
				s.passes(period / 2)
				s.requires(gpu.ActionNone)
			}
			s.expect("XID94")
		},
		"so does one that begins otherwise": func(s *story) {
			s.fails(2)
			s.tracker.Hang(theGPU, s.now)
			s.expect("Hung")
			s.xid(94)
			s.expect("Hung, needs reset, 3 times in 24h")
		},
		"hanging alone does not count": func(s *story) {
			for range 5 {
				s.tracker.Hang(theGPU, s.now)
				s.heals()
			}
			s.expect("")
		},
		"memory errors count": func(s *story) {
			for count := range 4 {
				s.answers(gpu.Sample{Action: gpu.ActionNone, Values: gpu.Values{gpu.ECCUncorrected: float64(count)}})
				if count < 3 {
					s.passes(period)
					s.answers(gpu.Sample{Action: gpu.ActionNone, Values: gpu.Values{gpu.ECCUncorrected: float64(count)}})
					s.expect("")
				}
			}
			s.expect("ECC, needs reset, 3 times in 24h")
		},
		"a restart of the agent forgets nothing": func(s *story) {
			s.fails(2)
			s.restarts()
			s.fails(1)
			s.expect("XID94, needs reset, 3 times in 24h")
			s.restarts()
			s.heals()
			s.expect("XID94, needs reset, 3 times in 24h")
		},
		"and counts a fault that it does not interrupt once": func(s *story) {
			s.fails(1)
			s.xid(94)
			s.restarts()
			s.requires(gpu.ActionNone)
			s.xid(94)
			s.expect("XID94")
		},
		"also if it goes on before the past is known": func(s *story) {
			s.xid(48)
			left := gpu.History{Fault: s.tracker.Fault(theGPU), PastFaults: s.tracker.PastFaults(theGPU)}
			s.tracker = newTracker()
			s.passes(time.Second)
			s.xid(48)
			s.tracker.Restore(theGPU, left, s.now)
			if past := s.tracker.PastFaults(theGPU); len(past) != 1 {
				s.Errorf("%d faults are counted, want 1", len(past))
			}
		},
		"faults before the past is known come after it": func(s *story) {
			s.fails(2)
			left := gpu.History{PastFaults: s.tracker.PastFaults(theGPU)}
			s.tracker = newTracker()
			s.fails(1)
			s.tracker.Restore(theGPU, left, s.now)
			s.fails(1)
			s.expect("XID94, needs reset, 3 times in 24h")
		},
		"a boot ends it": func(s *story) {
			s.fails(3)
			s.boots()
			s.heals()
			s.expect("")
			s.fails(1)
			s.expect("")
		},
		"a reboot that the driver requires is not forgotten for it": func(s *story) {
			s.fails(3)
			s.requires(gpu.ActionNodeReboot)
			s.expect("XID94, needs reset, NodeReboot, 3 times in 24h")
			s.requires(gpu.ActionNone)
			s.expect("XID94, needs reset, 3 times in 24h")
		},
		"it can be switched off": func(s *story) {
			s.tracker.policy.Escalation.After = 0
			s.fails(10)
			s.expect("")
			if past := s.tracker.PastFaults(theGPU); past != nil {
				s.Errorf("past faults are kept: %v", past)
			}
		},
	})
}

func TestPastFaultsAreBounded(t *testing.T) {
	t.Parallel()
	escalation := Escalation{After: 3, Window: time.Hour}
	var faults []time.Time
	for minute := range 10 {
		faults = escalation.add(faults, time.Unix(int64(60*minute), 0))
	}
	want := []time.Time{time.Unix(420, 0), time.Unix(480, 0), time.Unix(540, 0)}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestHowOftenAGPUHasFailed(t *testing.T) {
	t.Parallel()
	for window, want := range map[time.Duration]string{
		24 * time.Hour: "2 times in 24h", 90 * time.Minute: "2 times in 1h30m", 10 * time.Minute: "2 times in 10m", 45 * time.Second: "2 times in 45s",
	} {
		escalation := Escalation{After: 2, Window: window}
		if got := escalation.describe(make([]time.Time, 2)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
