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

var errMismatch = fmt.Errorf("%w: %w", gpu.ErrUnavailable, gpu.ErrRestart)

func TestADriverThatIsMissingIsLookedForAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.calls.fail(fmt.Errorf("libnvidia-ml.so.1: %w", gpu.ErrUnavailable), nil)
	f.pollsFor(time.Hour)
	if snapshot := f.monitor.Snapshot(); !errors.Is(snapshot.Problem, gpu.ErrUnavailable) || !snapshot.Taken.IsZero() {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	if opened := f.calls.opened.Load(); opened < 30 || opened > 70 {
		t.Errorf("the driver was looked for %d times in an hour", opened)
	}
	f.calls.fail(nil, nil)
	f.clock.Step(lastRetry)
	f.poll()
	if snapshot := f.monitor.Snapshot(); len(snapshot.Devices) != 8 || snapshot.Problem != nil {
		t.Errorf("the snapshot is %+v", snapshot)
	}
}

func TestADriverThatGoesTakesTheHealthWithIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.calls.fail(gpu.ErrUnavailable, gpu.ErrStale)
	f.poll()
	f.poll()
	f.expect(0, "NoDriver")
	if count := len(f.monitor.Snapshot().Devices); count != 8 {
		t.Errorf("%d GPUs are listed, want 8", count)
	}
}

func TestALibraryThatNoLongerFitsEndsTheProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.poll()
	f.calls.fail(errMismatch, gpu.ErrStale)
	for range 3 {
		f.poll()
		f.clock.Step(lastRetry)
	}
	select {
	case err := <-f.monitor.Broken():
		if !errors.Is(err, gpu.ErrRestart) {
			t.Errorf("the error is %v", err)
		}
	default:
		t.Error("Broken() has no error")
	}
	f.expect(0, "NoDriver")
}

// It would begin again with the same library: only another driver helps, after a
// boot for example, and that is found without a new process.
func TestALibraryThatHasNeverFittedIsNoReasonToEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.calls.fail(errMismatch, nil)
	f.pollsFor(time.Hour)
	select {
	case err := <-f.monitor.Broken():
		t.Errorf("the process shall end: %v", err)
	default:
	}
	if problem := f.monitor.Snapshot().Problem; !errors.Is(problem, gpu.ErrUnavailable) {
		t.Errorf("the problem is %v", problem)
	}
	f.calls.fail(nil, nil)
	f.clock.Step(lastRetry)
	f.poll()
	f.expect(0, "")
	if count := len(f.monitor.Snapshot().Devices); count != 8 {
		t.Errorf("%d GPUs are listed, want 8", count)
	}
}
