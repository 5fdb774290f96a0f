// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

func TestABookingIsGivenUpWhenNobodyLeaves(t *testing.T) {
	t.Parallel()
	const patience = 10 * time.Minute
	// Each step is eight minutes after the one before: who runs, and whom the gang waits for.
	type step struct{ runs, waitsFor string }
	tests := map[string]struct {
		steps []step
		want  bool // it is given up with the last step
	}{
		"nobody leaves":                {[]step{{"a b", "a b"}, {"a b", "a b"}, {"a b", "a b"}}, true},
		"one leaves each time":         {[]step{{"a b c", "a b c"}, {"b c", "b c"}, {"c", "c"}}, false},
		"it moves to a node of more":   {[]step{{"a b c d", "a"}, {"a b c d", "b c d"}, {"a c d", "c d"}}, false},
		"it moves, but nobody leaves":  {[]step{{"a b", "a"}, {"a b", "b"}, {"a b", "a"}}, true},
		"others leave than were asked": {[]step{{"a b", "a"}, {"a", "a"}, {"a", "a"}}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, now := &ahead{}, beginning
			for i, step := range test.steps {
				running, assumed := []backfill.Running{{Key: "job", Pods: strings.Fields(step.runs)}}, map[string]bool{"job": true}
				booking := backfill.Booking{Key: "big", From: now.Add(time.Hour)}
				for pod := range strings.FieldsSeq(step.waitsFor) {
					booking.Leaving = append(booking.Leaving, backfill.Leaver{Pod: pod, Job: "job"})
				}
				changes := a.pauseStalled([]backfill.Booking{booking}, running, assumed, now, patience)
				if givenUp, want := len(changes) > 0, test.want && i == len(test.steps)-1; givenUp != want {
					t.Errorf("step %d: given up: %t, want %t", i, givenUp, want)
				}
				now = now.Add(8 * time.Minute)
			}
		})
	}
}
