// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// pausing is a fixture whose driver can be paused.
func pausing(t *testing.T) (f *fixture, pause func(error)) {
	t.Helper()
	f = newFixture(t)
	var reason error
	f.monitor.config.Paused = func() error { return reason }
	return f, func(err error) { reason = err }
}

func TestADriverThatIsPausedIsLeftAlone(t *testing.T) {
	t.Parallel()
	f, pause := pausing(t)
	watched := make(chan struct{}, 10)
	f.calls.onWatch.set(func() { watched <- struct{}{} })
	go f.monitor.Watch(t.Context())
	f.poll()
	<-watched
	pause(errors.New("it is upgraded"))
	f.poll()
	if f.calls.closed.Load() == 0 || f.monitor.connection.isOpen() {
		t.Fatalf("closed %d times, open: %v", f.calls.closed.Load(), f.monitor.connection.isOpen())
	}
	snapshot := f.monitor.Snapshot()
	if !errors.Is(snapshot.Problem, gpu.ErrPaused) || snapshot.Problem.Error() != "the GPU driver is left alone: it is upgraded" || len(snapshot.Devices) != 8 {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	f.expect(0, "NoDriver")
	opened := f.calls.opened.Load()
	f.pollsFor(time.Hour)
	if now := f.calls.opened.Load(); now != opened {
		t.Errorf("the driver was opened %d times meanwhile", now-opened)
	}
	pause(nil)
	f.poll()
	f.expect(0, "")
	if snapshot := f.monitor.Snapshot(); snapshot.Problem != nil || !f.monitor.connection.isOpen() {
		t.Errorf("afterwards: %+v", snapshot)
	}
	f.await("events are watched again", watched)
}

func TestACallInFlightDelaysThePause(t *testing.T) {
	t.Parallel()
	f, pause := pausing(t)
	f.poll()
	f.hang()
	pause(errors.New("it is upgraded"))
	f.poll()
	if problem := f.monitor.Snapshot().Problem; !errors.Is(problem, gpu.ErrPaused) || f.calls.closed.Load() > 0 {
		t.Errorf("problem %v, closed %d times", problem, f.calls.closed.Load())
	}
	f.expect(0, "NoDriver") // it is not offered any more
}

// A container that was created before the driver was installed never gets its library.
func TestAProcessThatWasStartedBeforeTheDriverIsRestarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	installed := false
	f.monitor.config.Installed = func() bool { return installed }
	f.calls.fail(fmt.Errorf("%w: %w: libnvidia-ml.so.1", gpu.ErrUnavailable, gpu.ErrInaccessible), nil)
	f.pollsFor(time.Hour)
	installed = true
	f.pollsFor(accessPatience)
	select {
	case err := <-f.monitor.Broken():
		t.Fatalf("it is restarted before the runtime can have been set up: %v", err)
	default:
	}
	f.pollsFor(2 * often)
	select {
	case err := <-f.monitor.Broken():
		if !errors.Is(err, gpu.ErrRestart) {
			t.Errorf("unexpected error %v", err)
		}
	default:
		t.Error("it is not restarted")
	}
}

// Only the time since it was out of reach again counts.
func TestADriverThatWasInReachOrLeftAloneMeanwhileHasAnotherMinute(t *testing.T) {
	t.Parallel()
	inaccessible := fmt.Errorf("%w: %w", gpu.ErrUnavailable, gpu.ErrInaccessible)
	for name, meanwhile := range map[string]func(*fixture, func(error)){
		"in reach": func(f *fixture, _ func(error)) {
			f.calls.fail(nil, nil)
			f.pollsFor(accessPatience / 2)
			if !f.monitor.connection.isOpen() {
				f.Fatal("the driver is not in reach")
			}
		},
		"left alone": func(f *fixture, pause func(error)) {
			pause(errors.New("it is upgraded"))
			f.poll()
			pause(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, pause := pausing(t)
			f.monitor.config.Installed = func() bool { return true }
			f.calls.fail(inaccessible, nil)
			f.pollsFor(accessPatience / 2)
			meanwhile(f, pause)
			f.calls.fail(inaccessible, gpu.ErrStale)
			f.pollsFor(accessPatience - often)
			select {
			case err := <-f.monitor.Broken():
				t.Errorf("unexpected error %v", err)
			default:
			}
		})
	}
}

func TestAProcessIsNotRestartedForADriverThatIsNotThere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.monitor.config.Installed = func() bool { return true }
	f.calls.fail(gpu.ErrUnavailable, nil) // its module is not loaded
	f.pollsFor(time.Hour)
	select {
	case err := <-f.monitor.Broken():
		t.Errorf("unexpected error %v", err)
	default:
	}
}
