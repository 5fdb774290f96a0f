// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package expectations

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestPending(t *testing.T) {
	t.Parallel()
	const task = "default/train"
	tests := map[string]struct {
		happens func(*Expectations[string], *clocktesting.FakeClock)
		want    time.Duration
	}{
		"nothing was written": {
			func(*Expectations[string], *clocktesting.FakeClock) {}, 0,
		},
		"an object was created": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) { e.ExpectCreation(task, "a") }, Timeout,
		},
		"an object was created and seen": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) {
				e.ExpectCreation(task, "a")
				e.ObserveCreation(task, "a")
			}, 0,
		},
		"one of two created objects was seen": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) {
				e.ExpectCreation(task, "a")
				e.ExpectCreation(task, "b")
				e.ObserveCreation(task, "a")
			}, Timeout,
		},
		"an older version was seen": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) {
				e.ExpectVersion(task, "10")
				e.ObserveVersion(task, "9")
			}, Timeout,
		},
		"the written version was seen": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) {
				e.ExpectVersion(task, "10")
				e.ObserveVersion(task, "10")
			}, 0,
		},
		"a newer version was seen": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) {
				e.ExpectVersion(task, "9")
				e.ObserveVersion(task, "10")
			}, 0,
		},
		"the update was seen but not the creation": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) {
				e.ExpectVersion(task, "9")
				e.ExpectCreation(task, "a")
				e.ObserveVersion(task, "9")
			}, Timeout,
		},
		"a write for another key is not pending": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) { e.ExpectCreation("default/other", "a") }, 0,
		},
		"all is forgotten": {
			func(e *Expectations[string], _ *clocktesting.FakeClock) {
				e.ExpectCreation(task, "a")
				e.Forget(task)
			}, 0,
		},
		"some time has passed": {
			func(e *Expectations[string], clock *clocktesting.FakeClock) {
				e.ExpectCreation(task, "a")
				clock.Step(10 * time.Second)
			}, Timeout - 10*time.Second,
		},
		"a lost event is waited for only so long": {
			func(e *Expectations[string], clock *clocktesting.FakeClock) {
				e.ExpectCreation(task, "a")
				clock.Step(Timeout)
			}, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
			expectations := New[string](clock)
			test.happens(expectations, clock)
			if got := expectations.Pending(task); got != test.want {
				t.Errorf("pending for %v, want %v", got, test.want)
			}
		})
	}
}

func TestAnyPending(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	expectations := New[string](clock)
	check := func(want bool, when string) {
		t.Helper()
		if got := expectations.AnyPending(); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	check(false, "at first")
	expectations.ExpectVersion("a", "7")
	clock.Step(Timeout - time.Second)
	expectations.ExpectVersion("b", "8")
	check(true, "after two writes")
	clock.Step(time.Second)
	check(true, "when the first has timed out")
	expectations.ObserveVersion("b", "8")
	check(false, "when the second was seen")
}
