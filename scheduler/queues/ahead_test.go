// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

func TestTheCauseOfAPostponementNamesOnlyJobsOfTheNamespace(t *testing.T) {
	t.Parallel()
	l := newLine(t, bareCore{})
	for want, cause := range map[string]backfill.Cause{
		"train runs longer than estimated":                             {Kind: backfill.Overrun, Job: "default/train"},
		"it is no longer known when work of another namespace ends":    {Kind: backfill.EndUnknown, Job: "secret/train"},
		"work of another namespace goes first and needs the same GPUs": {Kind: backfill.GoesFirst, Job: "secret/train"},
		"others have taken GPUs that it was to get":                    {Kind: backfill.Taken},
	} {
		if got := l.causeFor(&cause, "default"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestReservationsAfterItsOwnAreNotInTheWayOfAGang(t *testing.T) {
	t.Parallel()
	a := &ahead{reservations: []backfill.Reservation{{Key: "first"}, {Key: "second"}, {Key: "third"}}}
	for group, want := range map[string]int{"first": 0, "second": 1, "third": 2, "another": 3} {
		if list, _ := a.before(group); len(list) != want {
			t.Errorf("%d reservations are in the way of the %s, want %d", len(list), group, want)
		}
	}
}
