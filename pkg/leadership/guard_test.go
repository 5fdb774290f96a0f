// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package leadership

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
)

const self, term = "self", 10 * time.Second

// lock answers with an error, after a while.
type lock struct {
	resourcelock.Interface
	clock *clocktesting.FakeClock
	takes time.Duration
	err   error
}

func (l *lock) Identity() string { return self }

func (l *lock) Describe() string { return "the lease" }

func (l *lock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	l.clock.Step(l.takes)
	return l.err
}

func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func TestGuard(t *testing.T) {
	update := func(holder string, takes time.Duration, err error) func(*lock, resourcelock.Interface) {
		return func(l *lock, watched resourcelock.Interface) {
			l.takes, l.err = takes, err
			_ = watched.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: holder})
		}
	}
	asThe := func(leader int) func(*lock, resourcelock.Interface) {
		return func(_ *lock, watched resourcelock.Interface) {
			_ = watched.Update(context.Background(), resourcelock.LeaderElectionRecord{HolderIdentity: self, LeaderTransitions: leader})
		}
	}
	pass := func(d time.Duration) func(*lock, resourcelock.Interface) {
		return func(l *lock, _ resourcelock.Interface) { l.clock.Step(d) }
	}
	type deeds = []func(*lock, resourcelock.Interface)
	tests := map[string]struct {
		deeds    deeds
		leads    bool
		acquired bool
	}{
		"a new process does not lead":                      {},
		"a process that has just got the lease leads":      {deeds{update(self, 0, nil)}, true, true},
		"a lease that could not be had is none":            {deeds{update(self, 0, errors.New("conflict"))}, false, false},
		"the term counts from the begin of the request":    {deeds{update(self, 9*time.Second, nil), pass(time.Second)}, false, true},
		"it leads until the term is over":                  {deeds{update(self, 0, nil), pass(term - 1)}, true, true},
		"a process that hangs beyond the term does not":    {deeds{update(self, 0, nil), pass(term)}, false, true},
		"a renewal begins another term":                    {deeds{update(self, 0, nil), pass(9 * time.Second), update(self, 0, nil), pass(9 * time.Second)}, true, true},
		"a renewal that failed does not end the term":      {deeds{update(self, 0, nil), update(self, time.Second, errors.New("timeout"))}, true, true},
		"a process that released the lease does not lead":  {deeds{update(self, 0, nil), update("", 0, nil)}, false, true},
		"not even if the request to release it is lost":    {deeds{update(self, 0, nil), update("", 0, errors.New("timeout"))}, false, true},
		"it may get a lease again that it has released":    {deeds{update(self, 0, nil), update("", 0, nil), update(self, 0, nil)}, true, true},
		"a process that renews too late goes on":           {deeds{asThe(3), pass(time.Hour), asThe(3)}, true, true},
		"but not if another process has led in between":    {deeds{asThe(3), pass(time.Hour), asThe(5)}, false, true},
		"and it never leads again":                         {deeds{asThe(3), asThe(5), asThe(5)}, false, true},
		"a term does not count while no one holds a lease": {deeds{pass(time.Hour)}, false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			l := &lock{clock: clocktesting.NewFakeClock(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))}
			guard := NewGuard(l.clock)
			watched := guard.Watch(l, term)
			for _, do := range test.deeds {
				do(l, watched)
			}
			if guard.Leads() != test.leads {
				t.Errorf("it leads: %v, want %v", guard.Leads(), test.leads)
			}
			acquired := false
			select {
			case <-guard.Acquired():
				acquired = true
			default:
			}
			if acquired != test.acquired {
				t.Errorf("it has acquired the lease: %v, want %v", acquired, test.acquired)
			}
		})
	}
}

func TestCreatingTheLeaseAcquiresIt(t *testing.T) {
	l := &lock{clock: clocktesting.NewFakeClock(time.Now())}
	guard := NewGuard(l.clock)
	if err := guard.Watch(l, term).Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: self}); err != nil {
		t.Fatal(err)
	}
	if !guard.Leads() {
		t.Error("the process that created the lease does not lead")
	}
}
