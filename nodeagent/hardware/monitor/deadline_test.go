// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"testing"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/hardware/health"
	"falldio.github.io/gpu-controller/nodeagent/hardware/simulation"
)

func TestAHangingGPUDoesNotBlindThePoll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.hang()
	f.expect(5, health.ReasonHung)
	f.expect(4, "")
	f.expect(6, "")
	snapshot := f.monitor.Snapshot()
	if !snapshot.Taken.Equal(f.clock.Now()) || snapshot.Devices[6].Values == nil || snapshot.Devices[5].Values != nil {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	f.inject(simulation.Fault{GPU: new(6), Fault: simulation.Lost})
	f.clock.Step(often)
	f.await("the next poll does not wait for it", f.pollApart())
	f.expect(6, health.ReasonLost)
	f.expect(5, health.ReasonHung)
	if hanging := f.monitor.Statistics().Hanging; hanging != deadline+often {
		t.Errorf("the call has been hanging for %v, want %v", hanging, deadline+often)
	}
}

func TestAGPUThatHangsFromTheStartDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.hang()
	f.expect(5, health.ReasonHung)
	f.expect(4, "")
	if count := len(f.monitor.Snapshot().Devices); count != 8 {
		t.Errorf("%d GPUs are listed, want 8", count)
	}
}

func TestAGPUThatHangsNoLongerIsReadAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.hang()
	f.inject(simulation.Fault{GPU: new(5), Fault: simulation.Recovered})
	eventually(t, "the call returns", func() bool { return f.monitor.Statistics().Hanging == 0 })
	f.poll()
	f.expect(5, health.ReasonHung)
	if f.monitor.Snapshot().Devices[5].Values == nil {
		t.Error("the GPU has no measurements")
	}
	f.clock.Step(period)
	f.poll()
	f.expect(5, "")
}

func TestAHangingCallIsNoticedBeforeThePollEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	reached, goOn := make(chan struct{}), make(chan struct{})
	f.calls.onRead.set(func(uuid string) error {
		if uuid == uuidOf(5) {
			f.clock.Step(deadline - time.Second)
			close(reached)
			<-goOn
		}
		return nil
	})
	ended := f.pollApart()
	f.await("the poll reaches the GPU", reached)
	f.monitor.CheckDeadline(t.Context())
	f.expect(5, "")
	f.clock.Step(time.Second)
	f.monitor.CheckDeadline(t.Context())
	f.expect(5, health.ReasonHung)
	close(goOn)
	f.await("the poll ends", ended)
}

func TestAHangingCallIsPublishedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.hang()
	changed := f.monitor.Changed()
	for range 10 {
		f.clock.Step(time.Second)
		f.monitor.CheckDeadline(t.Context())
	}
	select {
	case <-changed:
		t.Error("there is a new snapshot although nothing changed")
	default:
	}
	if hanging := f.monitor.Statistics().Hanging; hanging != deadline+10*time.Second {
		t.Errorf("the call has been hanging for %v", hanging)
	}
}

func TestTheConnectionIsKeptWhileACallHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.hang()
	f.inject(simulation.Fault{GPU: new(6), Fault: simulation.Lost})
	f.pollsFor(time.Hour)
	f.inject(simulation.Fault{GPU: new(7), Fault: simulation.Removed}) // the connection is stale
	f.pollsFor(time.Minute)
	f.expectOpened(1)
	if closed := f.calls.closed.Load(); closed != 0 {
		t.Fatalf("the connection was closed %d times under the call", closed)
	}
	f.expect(6, health.ReasonLost)
	f.expect(4, health.ReasonUnreadable) // nothing is known of it: the connection is of no use
	f.inject(simulation.Fault{GPU: new(5), Fault: simulation.Recovered})
	eventually(t, "the call returns", func() bool { return f.monitor.Statistics().Hanging == 0 })
	f.poll()
	f.expectOpened(2)
	if count := len(f.monitor.Snapshot().Devices); count != 7 {
		t.Errorf("there are %d GPUs, want 7", count)
	}
}

func TestARenewalThatHadToWaitForACallComesAtOnceAfterwards(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.inject(simulation.Fault{GPU: new(6), Fault: simulation.Lost})
	f.hang()
	f.pollsFor(time.Hour)
	f.expectOpened(1)
	f.inject(simulation.Fault{GPU: new(5), Fault: simulation.Recovered})
	eventually(t, "the call returns", func() bool { return f.monitor.Statistics().Hanging == 0 })
	f.poll()
	f.poll()
	f.expectOpened(2)
}

func TestAPanicConcernsOneGPU(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.calls.onRead.set(func(uuid string) error {
		if uuid == uuidOf(2) {
			panic("driver")
		}
		return nil
	})
	for range 3 {
		f.poll()
	}
	f.expect(2, health.ReasonUnreadable)
	f.expect(3, "")
}

// Connecting and disconnecting hang with the driver, too, and nothing is known of
// any GPU then.
func TestAConnectionThatHangsConcernsAllGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]func(f *fixture, block func()){
		"connecting":    func(f *fixture, block func()) { f.calls.onOpen.set(func() error { block(); return nil }) },
		"disconnecting": func(f *fixture, block func()) { f.calls.onClose.set(func() error { block(); return nil }) },
		"the end of a watch": func(f *fixture, block func()) {
			watching := make(chan struct{})
			f.calls.onWatch.set(func() {
				f.calls.onWatch.set(func() {}) // only this one hangs
				close(watching)
				block()
			})
			go f.monitor.Watch(f.Context())
			f.await("the watch begins", watching)
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			goOn := make(chan struct{})
			f.poll()
			spoil(f, func() { <-goOn })
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				f.calls.onRead.set(func(string) error { return gpu.ErrStale })
				f.poll()
				f.calls.onRead.set(func(string) error { return nil })
				f.poll()
			}()
			f.expectHanging(ended, goOn)
		})
	}
}

// expectHanging checks what is said of a poll that hangs, and then that it goes
// on.
func (f *fixture) expectHanging(ended <-chan struct{}, goOn chan<- struct{}) {
	f.Helper()
	began := f.clock.Now()
	eventually(f.T, "the GPUs are unhealthy", func() bool {
		f.clock.Step(time.Second)
		f.monitor.CheckDeadline(f.Context())
		return f.reason(0) != ""
	})
	if took := f.clock.Since(began); took < 8*deadline {
		f.Errorf("the GPUs are unhealthy after %v: starting eight may take longer", took)
	}
	f.expect(0, health.ReasonHung)
	f.expect(7, health.ReasonHung)
	snapshot := f.monitor.Snapshot()
	if hanging := f.monitor.Statistics().Hanging; hanging < deadline || snapshot.Problem == nil {
		f.Errorf("hanging for %v, problem %v", hanging, snapshot.Problem)
	}
	close(goOn)
	f.await("the poll ends", ended)
	f.poll()
	snapshot = f.monitor.Snapshot()
	if hanging := f.monitor.Statistics().Hanging; hanging != 0 || snapshot.Problem != nil {
		f.Errorf("afterwards: hanging for %v, problem %v", hanging, snapshot.Problem)
	}
	f.clock.Step(period)
	f.poll()
	f.expect(0, "")
}

func TestADriverThatHangsFromTheStartIsAProblem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	reached, goOn := make(chan struct{}), make(chan struct{})
	f.calls.onOpen.set(func() error { close(reached); <-goOn; return nil })
	ended := f.pollApart()
	f.await("the poll hangs", reached)
	f.clock.Step(deadline)
	f.monitor.CheckDeadline(t.Context())
	if f.monitor.Snapshot().Problem == nil || f.monitor.Statistics().Hanging != deadline {
		t.Errorf("the snapshot is %+v", f.monitor.Snapshot())
	}
	close(goOn)
	f.await("the poll ends", ended)
	f.expect(0, "")
	if f.monitor.Snapshot().Problem != nil {
		t.Errorf("the problem remains: %v", f.monitor.Snapshot().Problem)
	}
}
