// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

func TestPollFillsTheSnapshot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	changed := f.monitor.Changed()
	if len(f.monitor.Snapshot().Devices) != 0 {
		t.Fatal("there are GPUs before the first poll")
	}
	f.poll()
	select {
	case <-changed:
	default:
		t.Error("Changed() was not closed")
	}
	snapshot := f.monitor.Snapshot()
	if len(snapshot.Devices) != 8 || !snapshot.Taken.Equal(f.clock.Now()) || snapshot.Driver.CUDA != "12.8" {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	for _, device := range snapshot.Devices {
		if !device.Healthy() || device.NVLinkGroup != 0 || device.Values[gpu.Power] <= 0 {
			t.Errorf("GPU %d is %+v", device.Index, device)
		}
	}
	if statistics := f.monitor.Statistics(); statistics.Polls != 1 || statistics.FailedPolls != 0 {
		t.Errorf("the statistics are %+v", statistics)
	}
}

func TestALostGPUComesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	f.poll()
	f.expect(3, health.ReasonLost)
	f.expect(2, "")
	if f.monitor.Snapshot().Devices[3].Values != nil {
		t.Error("a lost GPU has measurements")
	}
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Recovered})
	f.poll()
	f.expect(3, health.ReasonLost)
	f.clock.Step(period)
	f.poll()
	f.expect(3, "")
}

func TestAnXIDDoesNotWaitForThePoll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	watching, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.monitor.Watch(watching)
	}()
	f.poll()
	f.inject(simulation.Fault{GPU: new(1), Fault: simulation.XID, XID: 79})
	eventually(t, "the GPU is unhealthy", func() bool { return f.reason(1) == "XID79" })
	device := f.monitor.Snapshot().Devices[1]
	if device.LastXID != 79 || device.XIDs[79] != 1 || !device.Fault.NeedsReset {
		t.Errorf("GPU 1 is %+v", device)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Error("watching does not end")
	}
}

func TestARemovedGPUVanishesAndReturns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.inject(simulation.Fault{GPU: new(7), Fault: simulation.Removed})
	f.poll()
	f.poll()
	if count := len(f.monitor.Snapshot().Devices); count != 7 {
		t.Errorf("there are %d GPUs, want 7", count)
	}
	f.inject(simulation.Fault{GPU: new(7), Fault: simulation.Recovered})
	f.poll()
	f.poll()
	if count := len(f.monitor.Snapshot().Devices); count != 8 {
		t.Errorf("there are %d GPUs, want 8", count)
	}
}

func TestFaultsOfAnEarlierLifeAreTakenOver(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.monitor.Restore(map[string]gpu.History{simulation.UUID("node-1", 2): {Fault: &gpu.Fault{Reason: "XID79", NeedsReset: true, BootID: "boot"}}})
	f.poll()
	f.clock.Step(time.Hour)
	f.poll()
	f.expect(2, "XID79")
}

func TestNewGPUsAreShownOnceTheyWereRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.calls.onRead.set(func(string) error {
		if count := len(f.monitor.Snapshot().Devices); count != 0 {
			t.Errorf("there are %d GPUs before the first was read", count)
		}
		return nil
	})
	changed := f.monitor.Changed()
	f.poll()
	f.await("the snapshot is new", changed)
	for _, device := range f.monitor.Snapshot().Devices {
		if device.Values == nil {
			t.Errorf("GPU %d has no values", device.Index)
		}
	}
}

func TestAGPUThatWasLostWithTheDriverIsNeverAnnouncedHealthy(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.calls.fail(gpu.ErrUnavailable, gpu.ErrStale)
	f.poll()
	f.poll()
	f.expect(3, "NoDriver")
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	f.clock.Step(lastRetry)
	f.calls.fail(nil, nil)
	f.calls.onRead.set(func(string) error {
		if f.reason(3) == "" {
			t.Error("the GPU was healthy for a moment")
		}
		return nil
	})
	f.poll()
	f.expect(3, health.ReasonLost)
	f.expect(2, "")
}

func BenchmarkPoll(b *testing.B) {
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	m := newMonitor(simulation.New(simulation.Default(), "node-1", clock), clock)
	for b.Loop() {
		m.Poll(b.Context())
		clock.Step(often)
	}
}
