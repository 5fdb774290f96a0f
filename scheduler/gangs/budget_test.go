// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

const ms = time.Millisecond

// budgetFixture is a registry that keeps attempts in vain to a tenth of the time.
func budgetFixture(t *testing.T) *fixture {
	t.Helper()
	fake := clocktesting.NewFakePassiveClock(begin)
	f := &fixture{t: t, clock: fake, step: func(d time.Duration) { fake.SetTime(fake.Now().Add(d)) }}
	withBudget := timing
	withBudget.Pauses = Pauses{Factor: 10, Shortest: 100 * ms, Longest: 2 * time.Second}
	f.Registry = NewRegistry(withBudget)
	f.Serve(ours)
	f.Start()
	return f
}

// inVain makes an attempt for a Pod: planning and explaining takes some time, then the
// search for Pods to preempt does.
func (f *fixture) inVain(uid types.UID, plan, postFilter time.Duration) {
	f.t.Helper()
	attempt := f.Attempt(uid)
	if attempt == nil {
		f.t.Fatalf("there is nothing to plan for Pod %s", uid)
		return
	}
	began := f.now()
	f.step(plan)
	ended := f.now()
	f.FailAttempt(attempt.Group, Failure{Began: began, Ended: ended, Never: f.never})
	f.step(postFilter)
	f.Prolong(uid, ended, f.now())
}

// The pause of the last attempt ends after so long.
func TestPausesCountTheWholeAttempt(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		attempts func(*fixture)
		want     time.Duration
	}{
		"a short one":                       {func(f *fixture) { f.inVain("a", ms, ms) }, 100 * ms},
		"planning takes long":               {func(f *fixture) { f.inVain("a", 50*ms, 0) }, 500 * ms},
		"the search for victims takes long": {func(f *fixture) { f.inVain("a", 0, 50*ms) }, 500 * ms},
		"both":                              {func(f *fixture) { f.inVain("a", 30*ms, 20*ms) }, 500 * ms},
		"it was interrupted for long":       {func(f *fixture) { f.inVain("a", time.Hour, 0) }, 20 * time.Second},
		"the clock was set back":            {func(f *fixture) { f.inVain("a", -time.Hour, 0) }, 100 * ms},
		"others fail as well":               {func(f *fixture) { f.inVain("b", 100*ms, 0); f.inVain("a", 50*ms, 0) }, 1500 * ms},
		"its last attempt took longer":      {func(f *fixture) { f.inVain("a", 100*ms, 0); f.inVain("a", 50*ms, 0) }, 500 * ms},
		"another one has gone":              {func(f *fixture) { f.inVain("b", 100*ms, 0); f.Forget("b"); f.inVain("a", 50*ms, 0) }, 500 * ms},
		"another one has found a place": {func(f *fixture) {
			f.inVain("b", 100*ms, 0)
			f.seat(pod("b"), 1)
			f.barrier(pod("b"))
			f.inVain("a", 50*ms, 0)
		}, 500 * ms},
		"another one has had a longer attempt": {func(f *fixture) { f.inVain("b", 100*ms, 0); f.fail(pod("b"), 0); f.inVain("a", 50*ms, 0) }, 500 * ms},
		"a search without a failure before":    {func(f *fixture) { f.Prolong("b", f.now(), f.now().Add(time.Second)); f.inVain("a", 50*ms, 0) }, 500 * ms},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := budgetFixture(t)
			f.Observe(pod("a"))
			f.Observe(pod("b"))
			test.attempts(f)
			if got := f.members["a"].group.restEnd(f.retries.lanes[laneUsual].budget.rest()).Sub(f.now()); got != test.want {
				t.Errorf("it rests for %v, want %v", got, test.want)
			}
		})
	}
}

// Gangs whose attempts differ much fail all the time, and there is more room all the time:
// a tenth of the time goes to them, and each is tried.
func TestAttemptsInVainTakeATenthOfTheTime(t *testing.T) {
	t.Parallel()
	for _, count := range []int{1, 30, 1000} {
		t.Run(fmt.Sprint(count, " gangs"), func(t *testing.T) {
			t.Parallel()
			f, tried := budgetFixture(t), map[types.UID]int{}
			// spent is what attempts took; round is what one of each takes.
			spent, round := time.Duration(0), time.Duration(0)
			attempt := func(index int, uid types.UID) {
				plan, search := ms, 4*ms
				if index%10 == 0 {
					plan = 20 * ms
				}
				f.inVain(uid, plan, search)
				tried[uid]++
				spent += plan + search
			}
			for i := range count {
				p := pod(fmt.Sprint("waits-", i), prioritized(int32(i%3)))
				f.Observe(p)
				attempt(i, p.UID)
			}
			round = spent
			begin := f.now()
			spent = 0
			clear(tried)
			for end := begin.Add(100*round + 10*time.Second); f.now().Before(end); f.step(50 * ms) {
				f.runDue(attempt)
			}
			if part := float64(spent) / float64(f.now().Sub(begin)); part > 0.105 {
				t.Errorf("attempts in vain take %.3f of the time", part)
			}
			for _, m := range f.members {
				if tried[m.UID] < 4 {
					t.Errorf("%s is tried %d times in the time of ten rounds", m.UID, tried[m.UID])
				}
			}
		})
	}
}

// runDue makes the attempts that are due after a Pod has ended.
func (f *fixture) runDue(attempt func(index int, uid types.UID)) {
	f.Wake(f.now())
	f.step(ms)
	for _, p := range f.Due(f.now(), 64) {
		index := 0
		if _, err := fmt.Sscanf(p.Name, "waits-%d", &index); err != nil {
			f.t.Fatal(err)
		}
		attempt(index, p.UID)
	}
}

// A gang whose reservation has come must not wait because thousands of others are tried in vain.
func TestAGangThatIsHurriedRestsForItsOwnAttemptOnly(t *testing.T) {
	t.Parallel()
	f := budgetFixture(t)
	for i := range 1000 {
		p := pod(fmt.Sprint("waits-", i))
		f.Observe(p)
		f.inVain(p.UID, 20*ms, 0)
	}
	due := func() []string { return namesOf(f.Due(f.now(), 64)) }
	hurry := func() { f.Hurry([]string{"waits-999"}, f.now()) }
	f.step(200 * ms)
	if got := due(); len(got) > 0 {
		t.Fatalf("%q are due, though all rest for %v", got, f.retries.lanes[laneUsual].budget.rest())
	}
	hurry()
	if diff := cmp.Diff([]string{"waits-999"}, due()); diff != "" {
		t.Fatalf("due when one is hurried (-want +got):\n%s", diff)
	}
	f.inVain("waits-999", 20*ms, 10*ms)
	for range 5 {
		hurry()
		if got := due(); len(got) > 0 {
			t.Fatalf("%q are due at once after an attempt in vain: that would take all the time", got)
		}
		f.step(50 * ms)
	}
	f.step(100 * ms)
	hurry()
	if diff := cmp.Diff([]string{"waits-999"}, due()); diff != "" {
		t.Errorf("due after ten times what the attempt took (-want +got):\n%s", diff)
	}
}
