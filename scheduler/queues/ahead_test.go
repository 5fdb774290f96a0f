// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

func TestTheCauseOfAPostponementNamesOnlyJobsOfTheNamespace(t *testing.T) {
	t.Parallel()
	l := newLine(t, bareCore{})
	for want, cause := range map[string]backfill.Cause{
		"train runs longer than estimated":                             {Kind: backfill.Overrun, Job: "default/train"},
		"it is no longer known when work of another namespace ends":    {Kind: backfill.EndUnknown, Job: "secret/train"},
		"work of another namespace goes first and needs the same GPUs": {Kind: backfill.GoesFirst, Job: "secret/train"},
		"others have taken GPUs that were planned for it":              {Kind: backfill.Taken},
	} {
		if got := l.causeFor(&cause, "default"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBookingsAfterItsOwnAreNotInTheWayOfAGang(t *testing.T) {
	t.Parallel()
	a := &ahead{bookings: []backfill.Booking{{Key: "first"}, {Key: "second"}, {Key: "third"}}}
	for group, want := range map[string]int{"first": 0, "second": 1, "third": 2, "another": 3} {
		if list, _ := a.before(group, owner{}); len(list) != want {
			t.Errorf("%d bookings are in the way of the %s, want %d", len(list), group, want)
		}
	}
}

// A Pod that starts beside a booking and leaves in time holds a part of what was kept free so far.
func TestWhatABookingKeepsFreeChangesWithWhoLeavesForIt(t *testing.T) {
	t.Parallel()
	booking := backfill.Booking{
		Key: "big", From: beginning.Add(time.Hour), Plan: &placement.Plan{Members: []placement.Member{{Place: placement.Place{Node: "a"}}}},
		Leaving: []backfill.Leaver{{Pod: "first"}},
	}
	other := booking
	other.Leaving = []backfill.Leaver{{Pod: "first"}, {Pod: "second"}}
	a := &ahead{}
	keyWith := func(booking backfill.Booking) string {
		a.set([]backfill.Booking{booking}, nil, beginning, 0)
		_, key := a.before("small", owner{})
		return key
	}
	if first := keyWith(booking); keyWith(booking) != first || keyWith(other) == first {
		t.Error("the key changes with the same Pods, or does not with others")
	}
}

// A gang that has just come is not in the line yet.
func TestBookingsOfALowerPriorityInItsQueueAreNotInTheWayOfAGang(t *testing.T) {
	t.Parallel()
	of := func(queue string, priority int32) owner { return owner{queue, gangs.Rank{Priority: priority}} }
	a := &ahead{
		bookings: []backfill.Booking{{Key: "high"}, {Key: "low"}, {Key: "other"}},
		owners:   map[string]owner{"high": of("q", 5), "low": of("q", 1), "other": of("", 1)},
	}
	tests := map[string]struct {
		of   owner
		want string
	}{
		"of the same priority as the first one": {of("q", 5), "high other"},
		"of the lowest priority":                {of("q", 1), "high low other"},
		"of the highest priority":               {of("q", 6), "other"},
		"of another queue":                      {of("third", 6), "high low other"},
	}
	keys := map[string]string{}
	for name, test := range tests {
		list, key := a.before("new", test.of)
		var got []string
		for i := range list {
			got = append(got, list[i].Key)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v are in its way, want %s", name, got, test.want)
		}
		if known := keys[key]; known != "" && known != test.want {
			t.Errorf("%s: %s has the same key as %s", name, test.want, known)
		}
		keys[key] = test.want
	}
}
