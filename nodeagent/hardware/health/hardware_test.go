// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

func rows(quantity gpu.Quantity, value float64) gpu.Sample {
	return gpu.Sample{Values: gpu.Values{quantity: value, gpu.Energy: 100}}
}

func TestMemoryRows(t *testing.T) {
	t.Parallel()
	tellAll(t, map[string]func(*story){
		"no reset heals a failure that the driver reports": func(s *story) {
			s.answers(rows(gpu.RowRemapFailure, 1))
			s.expect("RowRemapFailure")
			s.answers(gpu.Sample{Values: gpu.Values{gpu.RowRemapFailure: 1, gpu.Energy: 1}})
			s.passes(time.Hour)
			s.answers(gpu.Sample{Action: gpu.ActionNone, Values: gpu.Values{gpu.RowRemapFailure: 1}})
			s.expect("RowRemapFailure")
		},
		"a failure lasts while it can't be read": func(s *story) {
			s.answers(rows(gpu.RowRemapFailure, 1))
			s.passes(time.Hour)
			s.answers(energy(101))
			s.expect("RowRemapFailure")
		},
		"it is over when the driver no longer reports it": func(s *story) {
			s.answers(rows(gpu.RowRemapFailure, 1))
			s.passes(period - 1)
			s.answers(rows(gpu.RowRemapFailure, 0))
			s.expect("RowRemapFailure")
			s.passes(1)
			s.answers(rows(gpu.RowRemapFailure, 0))
			s.expect("")
		},
		"it matters more than the error that preceded it": func(s *story) {
			s.xid(64)
			s.answers(rows(gpu.RowRemapFailure, 1))
			s.expect("RowRemapFailure, needs reset")
		},
		"rows that wait for a reset need one": func(s *story) {
			s.answers(rows(gpu.RowRemapPending, 1))
			s.expect("RowRemapPending, needs reset")
			s.passes(time.Hour)
			s.answers(rows(gpu.RowRemapPending, 1))
			s.expect("RowRemapPending, needs reset")
			s.answers(gpu.Sample{Values: gpu.Values{gpu.RowRemapPending: 0, gpu.Energy: 1}})
			s.expect("RowRemapPending")
		},
		"unless the driver requires nothing": func(s *story) {
			s.answers(gpu.Sample{Action: gpu.ActionNone, Values: gpu.Values{gpu.RowRemapPending: 1}})
			s.expect("")
		},
		"they are the reason of the reset that the driver requires": func(s *story) {
			s.answers(gpu.Sample{Action: gpu.ActionGPUReset, Values: gpu.Values{gpu.RowRemapPending: 1}})
			s.expect("RowRemapPending, needs reset, GPUReset")
		},
	})
}

func TestFabric(t *testing.T) {
	t.Parallel()
	tellAll(t, map[string]func(*story){
		"a GPU is healthy as soon as it has joined": func(s *story) {
			s.answers(gpu.Sample{Fabric: gpu.FabricNotReady})
			s.expect("FabricNotReady")
			s.passes(time.Hour)
			s.answers(gpu.Sample{Fabric: gpu.FabricNotReady})
			s.expect("FabricNotReady")
			s.answers(gpu.Sample{Fabric: gpu.FabricJoined})
			s.expect("")
			s.answers(gpu.Sample{Fabric: gpu.FabricNotReady})
			s.passes(time.Second)
			s.answers(gpu.Sample{Fabric: gpu.FabricJoined})
			s.expect("")
		},
		"also if the agent was restarted": func(s *story) {
			s.answers(gpu.Sample{Fabric: gpu.FabricNotReady})
			s.restarts()
			s.answers(gpu.Sample{Fabric: gpu.FabricJoined})
			s.expect("")
		},
		"but not if there is something else": func(s *story) {
			s.answers(gpu.Sample{Fabric: gpu.FabricNotReady})
			s.tracker.Hang(theGPU, s.now)
			s.answers(gpu.Sample{Fabric: gpu.FabricJoined})
			s.expect("FabricNotReady")
			s.passes(period)
			s.answers(gpu.Sample{Fabric: gpu.FabricJoined})
			s.expect("")
		},
		"another fault lasts until it has joined": func(s *story) {
			s.tracker.Hang(theGPU, s.now)
			s.answers(gpu.Sample{Fabric: gpu.FabricNotReady})
			s.passes(period)
			s.answers(gpu.Sample{Fabric: gpu.FabricNotReady})
			s.expect("Hung")
			s.answers(gpu.Sample{Fabric: gpu.FabricJoined})
			s.expect("")
		},
		"a state that can't be read changes nothing": func(s *story) {
			s.answers(gpu.Sample{Fabric: gpu.FabricNotReady})
			s.answers(gpu.Sample{})
			s.expect("FabricNotReady")
		},
		"a GPU without a fabric lacks none": func(s *story) {
			s.answers(gpu.Sample{Fabric: gpu.FabricUnknown})
			s.expect("")
		},
		"joining that failed is a fault with a recovery period": func(s *story) {
			s.answers(gpu.Sample{Fabric: gpu.FabricFailed})
			s.expect("FabricFailed")
			s.passes(time.Hour)
			s.answers(gpu.Sample{Fabric: gpu.FabricFailed})
			s.answers(gpu.Sample{Fabric: gpu.FabricJoined})
			s.expect("FabricFailed")
			s.passes(period)
			s.answers(gpu.Sample{Fabric: gpu.FabricJoined})
			s.expect("")
		},
	})
}
