// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

func (f *fixture) expectOpened(want int32) {
	f.Helper()
	if got := f.calls.opened.Load(); got != want {
		f.Fatalf("the driver was connected to %d times, want %d", got, want)
	}
}

func TestTheConnectionIsRenewedForALostGPU(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	f.poll()
	f.clock.Step(renewAfter - time.Second)
	f.poll()
	f.poll()
	f.expectOpened(1)
	f.clock.Step(time.Second)
	f.poll()
	f.poll()
	f.expectOpened(2)
	f.expect(3, health.ReasonLost)
	if len(f.monitor.Snapshot().Devices) != 8 {
		t.Error("the lost GPU is no longer listed")
	}
	if failed := f.monitor.Statistics().FailedPolls; failed != 0 {
		t.Errorf("%d polls count as failed: a renewal is no failure", failed)
	}
}

func TestADeadGPUCausesFewerAndFewerRenewals(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	f.pollsFor(6 * time.Hour)
	if opened := f.calls.opened.Load(); opened < 10 || opened > 20 {
		t.Errorf("the driver was connected to %d times in six hours", opened)
	}
	before := f.calls.opened.Load()
	f.inject(simulation.Fault{GPU: new(4), Fault: simulation.Lost})
	f.pollsFor(renewAfter + 3*often)
	if opened := f.calls.opened.Load(); opened == before {
		t.Error("another GPU that was lost must wait for the first one's sake")
	}
}

func TestOneFailedReadRenewsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.clock.Step(time.Hour)
	f.calls.fail(nil, errors.New("unknown"))
	f.poll()
	f.calls.fail(nil, nil)
	f.poll()
	f.expectOpened(1)
	f.calls.fail(nil, errors.New("unknown"))
	for range 4 {
		f.poll()
	}
	f.expect(0, health.ReasonUnreadable)
	f.expectOpened(2)
}

func TestHealthIsPublishedBeforeTheConnectionIsRenewed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.clock.Step(time.Hour)
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	f.poll()
	f.expect(3, health.ReasonLost)
}

func TestWhatAStalePollFoundIsPublished(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.inject(simulation.Fault{GPU: new(4), Fault: simulation.Lost})
	f.inject(simulation.Fault{GPU: new(7), Fault: simulation.Removed}) // all others are stale
	f.calls.onRead.set(func(uuid string) error {
		if uuid == uuidOf(4) {
			return gpu.ErrLost
		}
		return nil
	})
	f.poll()
	f.expect(4, health.ReasonLost)
	f.expect(5, "")
	if count := len(f.monitor.Snapshot().Devices); count != 8 {
		t.Errorf("there are %d GPUs before the connection is renewed, want 8", count)
	}
}
