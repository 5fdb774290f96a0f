// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/gpu"
	"falldio.github.io/gpu-controller/nodeagent/health"
	"falldio.github.io/gpu-controller/nodeagent/simulation"
)

const (
	period   = time.Minute
	deadline = 10 * time.Second
	limit    = 10 * time.Second
)

type fixture struct {
	*testing.T
	clock   *clocktesting.FakeClock
	source  *simulation.Source
	monitor *Monitor
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	f.source = simulation.New(simulation.Default(), "node-1", f.clock)
	f.monitor = newMonitor(f.source, f.clock)
	t.Cleanup(func() { _ = f.source.Close() })
	return f
}

func newMonitor(source gpu.Source, clock *clocktesting.FakeClock) *Monitor {
	policy := health.DefaultPolicy()
	policy.RecoveryPeriod = period
	return New(Config{Source: source, Clock: clock, Policy: policy, BootID: "boot", Deadline: deadline})
}

func (f *fixture) inject(fault simulation.Fault) {
	f.Helper()
	if err := f.source.Inject(fault); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) poll() { f.monitor.Poll(f.Context()) }

func (f *fixture) reason(index int) string {
	for _, device := range f.monitor.Snapshot().Devices {
		if device.Index == index && device.Fault != nil {
			return device.Fault.Reason
		}
	}
	return ""
}

func (f *fixture) expect(index int, reason string) {
	f.Helper()
	if got := f.reason(index); got != reason {
		f.Fatalf("GPU %d has the fault %q, want %q", index, got, reason)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, limit, true, func(context.Context) (bool, error) {
		return holds(), nil
	})
	if err != nil {
		t.Fatalf("not within %v: %s", limit, what)
	}
}

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
		t.Error("nobody was told of the snapshot")
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

func TestTheConnectionIsRenewedForALostGPU(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.inject(simulation.Fault{GPU: new(3), Fault: simulation.Lost})
	f.poll()
	f.clock.Step(renewAfter)
	f.poll()
	if failed := f.monitor.Statistics().FailedPolls; failed != 1 {
		t.Errorf("%d polls ended with a renewal, want 1", failed)
	}
	f.poll()
	f.expect(3, health.ReasonLost)
	if len(f.monitor.Snapshot().Devices) != 8 {
		t.Error("the lost GPU is no longer listed")
	}
}

func TestAHangingCallIsNoticed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.inject(simulation.Fault{GPU: new(5), Fault: simulation.Hung})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.poll()
	}()
	eventually(t, "the poll reaches the GPU", func() bool {
		under := f.monitor.calling.Load()
		return under != nil && under.uuid == simulation.UUID("node-1", 5)
	})
	f.monitor.CheckDeadline(t.Context())
	f.expect(5, "")
	f.clock.Step(deadline)
	f.monitor.CheckDeadline(t.Context())
	f.expect(5, health.ReasonHung)
	f.expect(4, "")
	if hanging := f.monitor.Statistics().Hanging; hanging != deadline {
		t.Errorf("the call has been hanging for %v, want %v", hanging, deadline)
	}
	f.inject(simulation.Fault{GPU: new(5), Fault: simulation.Recovered})
	select {
	case <-ended:
	case <-time.After(limit):
		t.Fatal("the poll does not end")
	}
	f.expect(5, health.ReasonHung)
	f.clock.Step(period)
	f.poll()
	f.expect(5, "")
	if hanging := f.monitor.Statistics().Hanging; hanging != 0 {
		t.Errorf("it is said to hang still, for %v", hanging)
	}
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
	f.monitor.Restore(map[string]gpu.Fault{simulation.UUID("node-1", 2): {Reason: "XID79", NeedsReset: true, BootID: "boot"}})
	f.poll()
	f.clock.Step(time.Hour)
	f.poll()
	f.expect(2, "XID79")
}

// brokenSource has no driver until it is given GPUs.
type brokenSource struct {
	gpu.Source
	opened int
	err    error
}

func (s *brokenSource) Open() (gpu.Inventory, error) {
	s.opened++
	if s.err != nil {
		return gpu.Inventory{}, s.err
	}
	return s.Source.Open()
}

func TestADriverThatIsMissingIsLookedForAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	source := &brokenSource{Source: f.source, err: fmt.Errorf("libnvidia-ml.so.1: %w", gpu.ErrUnavailable)}
	m := newMonitor(source, f.clock)
	for range 720 { // an hour
		m.Poll(t.Context())
		f.clock.Step(5 * time.Second)
	}
	if !errors.Is(m.Snapshot().Problem, gpu.ErrUnavailable) || !m.Snapshot().Taken.IsZero() {
		t.Errorf("the snapshot is %+v", m.Snapshot())
	}
	if source.opened < 30 || source.opened > 70 {
		t.Errorf("the driver was looked for %d times in an hour", source.opened)
	}
	source.err = nil
	f.clock.Step(lastRetry)
	m.Poll(t.Context())
	if len(m.Snapshot().Devices) != 8 || m.Snapshot().Problem != nil {
		t.Errorf("the snapshot is %+v", m.Snapshot())
	}
}

func TestADriverThatGoesTakesTheHealthWithIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	source := &brokenSource{Source: f.source}
	m := newMonitor(source, f.clock)
	m.Poll(t.Context())
	m.Close(t.Context())
	source.err = gpu.ErrUnavailable
	m.Poll(t.Context())
	snapshot := m.Snapshot()
	if len(snapshot.Devices) != 8 || snapshot.Devices[0].Fault == nil || snapshot.Devices[0].Fault.Reason != reasonNoDriver {
		t.Errorf("the snapshot is %+v", snapshot)
	}
}

func TestALibraryThatDoesNotFitEndsTheProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	m := newMonitor(&brokenSource{err: fmt.Errorf("%w: %w", gpu.ErrUnavailable, gpu.ErrRestart)}, f.clock)
	for range 3 {
		m.Poll(t.Context())
		f.clock.Step(lastRetry)
	}
	select {
	case err := <-m.Broken():
		if !errors.Is(err, gpu.ErrRestart) {
			t.Errorf("the error is %v", err)
		}
	default:
		t.Error("nobody is told")
	}
}

func BenchmarkPoll(b *testing.B) {
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	m := newMonitor(simulation.New(simulation.Default(), "node-1", clock), clock)
	for b.Loop() {
		m.Poll(b.Context())
		clock.Step(5 * time.Second)
	}
}
