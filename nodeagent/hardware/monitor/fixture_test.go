// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

const (
	period   = time.Minute
	deadline = 10 * time.Second
	limit    = 10 * time.Second
	// often is the time between two polls.
	often = 5 * time.Second
)

// fixture is a Monitor of simulated GPUs.
type fixture struct {
	*testing.T
	clock   *clocktesting.FakeClock
	source  *simulation.Source
	calls   *hooked
	monitor *Monitor
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	f.source = simulation.New(simulation.Default(), "node-1", f.clock)
	f.calls = &hooked{Source: f.source}
	f.monitor = newMonitor(f.calls, f.clock)
	t.Cleanup(func() { _ = f.source.Close() })
	return f
}

func newMonitor(source gpu.Source, clock *clocktesting.FakeClock) *Monitor {
	policy := health.DefaultPolicy()
	policy.RecoveryPeriod = period
	return New(Config{Source: source, Clock: clock, Policy: policy, BootID: "boot", Deadline: deadline})
}

// hooked counts the calls of a Source and lets tests fail them and hold them up.
type hooked struct {
	gpu.Source
	opened, closed  atomic.Int32
	onOpen, onClose hook[func() error]
	onRead          hook[func(uuid string) error]
	onWatch         hook[func()]
}

// hook is a function that a test may change at any time.
type hook[F any] struct{ atomic.Pointer[F] }

func (h *hook[F]) set(f F) { h.Store(&f) }

func (s *hooked) Open() (gpu.Inventory, error) {
	s.opened.Add(1)
	if on := s.onOpen.Load(); on != nil {
		if err := (*on)(); err != nil {
			return gpu.Inventory{}, err
		}
	}
	return s.Source.Open()
}

func (s *hooked) Read(uuid string) (gpu.Sample, error) {
	if on := s.onRead.Load(); on != nil {
		if err := (*on)(uuid); err != nil {
			return gpu.Sample{}, err
		}
	}
	return s.Source.Read(uuid)
}

func (s *hooked) Watch(ctx context.Context, report func(gpu.Event)) error {
	if on := s.onWatch.Load(); on != nil {
		(*on)()
	}
	return s.Source.Watch(ctx, report)
}

func (s *hooked) Close() error {
	s.closed.Add(1)
	if on := s.onClose.Load(); on != nil {
		if err := (*on)(); err != nil {
			return err
		}
	}
	return s.Source.Close()
}

// fail makes Open and Read fail; nil lets them work again.
func (s *hooked) fail(open, read error) {
	s.onOpen.set(func() error { return open })
	s.onRead.set(func(string) error { return read })
}

func (f *fixture) inject(fault simulation.Fault) {
	f.Helper()
	if err := f.source.Inject(fault); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) poll() { f.monitor.Poll(f.Context()) }

// pollsFor polls as often as an agent does.
func (f *fixture) pollsFor(d time.Duration) {
	for end := f.clock.Now().Add(d); f.clock.Now().Before(end); f.clock.Step(often) {
		f.poll()
	}
}

// pollApart polls in a goroutine; the result is closed when the poll has ended.
func (f *fixture) pollApart() <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.poll()
	}()
	return ended
}

func (f *fixture) await(what string, happened <-chan struct{}) {
	f.Helper()
	select {
	case <-happened:
	case <-time.After(limit):
		f.Fatalf("not within %v: %s", limit, what)
	}
}

// hang polls while GPU 5 hangs, until the poll gives up on it.
func (f *fixture) hang() {
	f.Helper()
	f.inject(simulation.Fault{GPU: new(5), Fault: simulation.Hung})
	ended := f.pollApart()
	eventually(f.T, "the poll waits for the GPU alone", func() bool {
		all := make([]string, 8)
		for i := range all {
			all[i] = uuidOf(i)
		}
		return f.clock.HasWaiters() && f.monitor.calls.inFlight(all) == 1
	})
	f.clock.Step(deadline)
	f.await("the poll gives up", ended)
}

func uuidOf(index int) string { return simulation.UUID("node-1", index) }

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
