// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// requires polls a GPU whose driver requires an action.
func (s *story) requires(action gpu.Action) { s.answers(gpu.Sample{Action: action}) }

func TestActions(t *testing.T) {
	t.Parallel()
	reset := func(action gpu.Action) gpu.Sample {
		return gpu.Sample{Action: action, Values: gpu.Values{gpu.Energy: 1}}
	}
	tellAll(t, map[string]func(*story){
		"a reboot is required until the driver no longer requires it": func(s *story) {
			s.requires(gpu.ActionNodeReboot)
			s.expect("RebootRequired, NodeReboot")
			s.passes(time.Hour)
			s.requires(gpu.ActionNodeReboot)
			s.expect("RebootRequired, NodeReboot")
			s.requires(gpu.ActionNone)
			s.expect("RebootRequired")
			s.passes(period)
			s.requires(gpu.ActionNone)
			s.expect("")
		},
		"a reset of the GPU does not end it": func(s *story) {
			for _, action := range []gpu.Action{gpu.ActionNodeReboot, gpu.ActionSystemReboot} {
				s.answers(energy(100))
				s.requires(action)
				s.answers(energy(100))
				s.answers(reset(gpu.ActionUnknown))
				s.passes(time.Hour)
				s.answers(gpu.Sample{})
				s.expect("RebootRequired, " + action.String())
			}
		},
		"nor does one of a GPU that the driver said must be reset before": func(s *story) {
			s.answers(energy(100))
			s.xid(79)
			s.answers(gpu.Sample{Action: gpu.ActionNodeReboot, Values: gpu.Values{gpu.Energy: 101}})
			s.expect("XID79, NodeReboot")
			s.answers(reset(gpu.ActionUnknown))
			s.expect("XID79, NodeReboot")
		},
		"but ends a required reset, also of a driver that says no more": func(s *story) {
			for _, action := range []gpu.Action{gpu.ActionGPUReset, gpu.ActionDrainAndReset, gpu.ActionBusReset} {
				s.answers(gpu.Sample{Action: action, Values: gpu.Values{gpu.Energy: 100}})
				s.expect("ResetRequired, needs reset, " + action.String())
				s.answers(reset(gpu.ActionUnknown))
				s.expect("ResetRequired")
			}
		},
		"unless the driver still requires it": func(s *story) {
			s.answers(gpu.Sample{Action: gpu.ActionGPUReset, Values: gpu.Values{gpu.Energy: 100}})
			s.answers(reset(gpu.ActionGPUReset))
			s.expect("ResetRequired, needs reset, GPUReset")
		},
		"draining is over when the driver says so": func(s *story) {
			s.answers(gpu.Sample{Action: gpu.ActionDrainP2P, Values: gpu.Values{gpu.Energy: 100}})
			s.expect("RecoveryRequired, DrainP2P")
			s.answers(reset(gpu.ActionUnknown))
			s.passes(time.Hour)
			s.answers(gpu.Sample{})
			s.expect("RecoveryRequired, DrainP2P")
			s.requires(gpu.ActionNone)
			s.expect("")
		},
		"an action that this version does not know is kept as it is": func(s *story) {
			s.requires(gpu.NumberedAction(8))
			s.expect("RecoveryRequired, Unknown8")
		},
		"a reset that is not enough becomes a reboot": func(s *story) {
			s.requires(gpu.ActionGPUReset)
			s.requires(gpu.ActionNodeReboot)
			s.expect("RebootRequired, NodeReboot")
		},
		"a cause stays the reason": func(s *story) {
			s.requires(gpu.ActionNone)
			s.xid(79)
			s.requires(gpu.ActionGPUReset)
			s.requires(gpu.ActionNodeReboot)
			s.expect("XID79, NodeReboot")
		},
		"a restart of the agent keeps it": func(s *story) {
			s.requires(gpu.ActionNodeReboot)
			s.restarts()
			s.passes(time.Hour)
			s.answers(energy(1))
			s.expect("RebootRequired, NodeReboot")
		},
		"also if the agent has polled before": func(s *story) {
			s.answers(energy(100))
			s.requires(gpu.ActionNodeReboot)
			left := gpu.History{Fault: s.tracker.Fault(theGPU)}
			s.tracker = newTracker()
			s.tracker.Hang(theGPU, s.now)
			s.tracker.Restore(theGPU, left, s.now)
			s.expect("RebootRequired, NodeReboot")
		},
		"what the new agent has found to be required is added": func(s *story) {
			s.xid(79)
			left := gpu.History{Fault: s.tracker.Fault(theGPU)}
			s.tracker = newTracker()
			s.requires(gpu.ActionNodeReboot)
			s.tracker.Restore(theGPU, left, s.now)
			s.expect("XID79, needs reset, NodeReboot")
		},
		"a boot ends it": func(s *story) {
			s.requires(gpu.ActionSystemReboot)
			s.boots()
			s.expect("RebootRequired")
			s.passes(period)
			s.answers(gpu.Sample{})
			s.expect("")
		},
		"unless the driver requires it again": func(s *story) {
			s.requires(gpu.ActionSystemReboot)
			s.boots()
			s.requires(gpu.ActionSystemReboot)
			s.expect("RebootRequired, SystemReboot")
		},
	})
}
