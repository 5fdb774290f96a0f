// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inVainForEver lets a thousand Pods find that they would not fit even if nothing else ran.
func (f *fixture) inVainForEver() {
	f.never = true
	for i := range 1000 {
		p := pod(fmt.Sprint("never-", i))
		f.Observe(p)
		f.inVain(p.UID, 2*ms, 0)
	}
	f.never = false
}

// TestWhatNeverFitsWaitsForNodes: Pods that end are of no use to it.
func TestWhatNeverFitsWaitsForNodes(t *testing.T) {
	t.Parallel()
	const long = 20 * time.Second // less than Timing.Again
	tests := map[string]struct {
		woken func(*fixture)
		want  int
	}{
		"when nothing happens": {func(*fixture) {}, 0},
		"when a Pod has ended": {func(f *fixture) { f.Wake(f.now()) }, 0},
		"when a node has come": {func(f *fixture) { f.WakeAll(f.now()) }, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := budgetFixture(t)
			f.Observe(pod("train-0"))
			f.never = true
			f.inVain("train-0", ms, 0)
			f.step(long)
			test.woken(f)
			f.step(timing.Settle)
			if got := f.Due(f.now(), 64); len(got) != test.want {
				t.Errorf("%q are due, want %d", namesOf(got), test.want)
			}
		})
	}
}

// TestNobodyRestsForWhatNeverFits: with a thousand tasks of a misspelled GPU model, the others waited for a quarter of
// a minute for GPUs that were free.
func TestNobodyRestsForWhatNeverFits(t *testing.T) {
	t.Parallel()
	f := budgetFixture(t)
	f.inVainForEver()
	f.Observe(pod("a"))
	f.inVain("a", 5*ms, 0)
	f.Wake(f.now())
	f.step(150 * ms)
	if diff := cmp.Diff([]string{"a"}, namesOf(f.Due(f.now(), 64))); diff != "" {
		t.Errorf("due after the rest for its own attempt (-want +got):\n%s", diff)
	}
}

// TestAttemptsOfWhatNeverFitsTakeATwentiethOfTheTime, though nodes change all the time.
func TestAttemptsOfWhatNeverFitsTakeATwentiethOfTheTime(t *testing.T) {
	t.Parallel()
	f := budgetFixture(t)
	f.inVainForEver()
	f.never = true
	spent, begin := time.Duration(0), f.now()
	for f.now().Sub(begin) < 5*time.Minute {
		f.WakeAll(f.now())
		f.step(50 * ms)
		for _, p := range f.Due(f.now(), 64) {
			f.inVain(p.UID, 2*ms, 0)
			spent += 2 * ms
		}
	}
	if part := float64(spent) / float64(f.now().Sub(begin)); part > 0.055 || part < 0.03 {
		t.Errorf("they take %.3f of the time", part)
	}
}
