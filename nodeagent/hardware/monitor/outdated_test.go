// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

// changed is a Source whose GPUs answer, but are no longer as they were found.
type changed struct {
	gpu.Source
	action gpu.Action
}

func (s changed) Read(uuid string) (gpu.Sample, error) {
	sample, err := s.Source.Read(uuid)
	sample.Action = s.action
	if err == nil {
		err = gpu.ErrStale
	}
	return sample, err
}

func TestAGPUThatHasChangedIsFoundAgainAndStaysHealthy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.monitor.config.Source = changed{Source: f.calls}
	for range 10 {
		f.poll()
		f.clock.Step(often)
	}
	if opened := f.calls.opened.Load(); opened != 10 {
		t.Errorf("the driver was connected to %d times, want 10", opened)
	}
	for index := range 8 {
		f.expect(index, "")
	}
}

func TestWhatAGPUThatHasChangedReportsCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.monitor.config.Source = changed{Source: f.calls, action: gpu.ActionNodeReboot}
	f.poll()
	f.expect(3, health.ReasonRebootRequired)
}

func TestAGPUThatHasChangedIsHealthyWhileAnotherOneHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.hang()
	f.monitor.config.Source = changed{Source: f.calls}
	for range 5 { // the connection can't be renewed
		f.poll()
		f.clock.Step(often)
	}
	f.expect(5, health.ReasonHung)
	f.expect(3, "")
	if values := f.monitor.Snapshot().Devices[3].Values; values == nil {
		t.Error("its values are missing")
	}
}

func TestSlicesAreMeasuredAsTheyAreFound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	for _, profiles := range [][]string{{"7g.80gb"}, {"3g.40gb", "1g.10gb"}, nil} {
		f.inject(simulation.Fault{GPU: new(3), Fault: simulation.MIG, Slices: profiles})
		f.poll() // notices it
		f.poll() // finds them
		device := f.monitor.Snapshot().Devices[3]
		if !device.MIG || len(device.Slices) != len(profiles) || len(device.SliceValues) != len(profiles) {
			t.Errorf("divided into %v: %v with the measurements %v", profiles, device.Slices, device.SliceValues)
		}
		for _, slice := range device.Slices {
			if device.SliceValues[slice.UUID][gpu.MemoryUsed] <= 0 {
				t.Errorf("of %s nothing is measured: %v", slice.UUID, device.SliceValues)
			}
		}
		f.expect(3, "")
	}
}
