// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
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
