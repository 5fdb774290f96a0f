// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill_test

import (
	"slices"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

func TestRevise(t *testing.T) {
	t.Parallel()
	// Before: x leaves n0 after 30 minutes, y leaves n1 after 60, z leaves n2 after 60. Job a
	// is promised n0 after 30 minutes, job b n1 after 60.
	later := func(s *site, job, minutes int) {
		s.Running[job].Ends = now.Add(time.Duration(minutes) * time.Minute)
	}
	tests := map[string]struct {
		change func(*site)
		want   []int
		reason string
	}{
		"nothing has changed": {func(*site) {}, []int{30, 60}, ""},
		"somebody else runs longer": {func(s *site) {
			later(s, 2, 500)
		}, []int{30, 60}, ""},
		"a job runs longer, but another place is as early": {func(s *site) {
			later(s, 1, 500)
		}, []int{30, 60}, ""},
		"a job runs longer": {func(s *site) {
			later(s, 0, 45)
		}, []int{45, 60}, "x runs longer than estimated"},
		"a job's end is no longer known": {func(s *site) {
			s.Running[0].Ends = time.Time{}
		}, []int{60, 60}, "it is no longer known when x ends"},
		"a job ended early": {func(s *site) {
			s.Cluster.Remove("x-n0")
		}, []int{0, 60}, "x ended earlier than estimated"},
		"a node is gone": {func(s *site) {
			s.Cluster.RemoveNode("n0")
		}, []int{60, 60}, "node n0 is gone"},
		"a new node": {func(s *site) {
			s.node("n9")
		}, []int{0, 30}, "there is room earlier than expected"},
		"a job of another order comes first": {func(s *site) {
			s.waits("c", 1, 8, 1000)
			slices.Reverse(s.Waiting)
		}, []int{60, 60}, "c goes first and needs the same GPUs"},
		"the job's place is excluded now": {func(s *site) {
			s.Waiting[0].Gang.Except = []string{"n0"}
		}, []int{60, 30}, "node n0 is reserved for others or has refused it"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 3)
			s.runs("x", "n0", 30, all...)
			s.runs("y", "n1", 60, all...)
			s.runs("z", "n2", 60, all...)
			s.waits("a", 1, 8, 1000)
			s.waits("b", 1, 8, 1000)
			before := s.plan()
			if minutes(&before[0]) != 30 || minutes(&before[1]) != 60 {
				t.Fatalf("before: got %+v", before)
			}
			test.change(s)
			after, changes := backfill.Revise(&s.Input, before)
			for i, key := range []string{"a", "b"} {
				at := slices.IndexFunc(after, func(r backfill.Booking) bool { return r.Key == key })
				if got := minutes(&after[at]); got != test.want[i] {
					t.Errorf("%s: begins after %d minutes, want %d", key, got, test.want[i])
				}
			}
			at := slices.IndexFunc(changes, func(c backfill.Change) bool { return c.Key == "a" })
			switch {
			case test.reason == "" && at >= 0:
				t.Errorf("a moved: %+v", changes[at])
			case test.reason != "" && (at < 0 || changes[at].Cause.String() != test.reason):
				t.Errorf("the changes are %+v, want a's because %s", changes, test.reason)
			}
		})
	}
}

func TestAPromisedTimeThatHasComeIsNoChange(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.runs("x", "n0", 30, all...)
	s.waits("a", 1, 8, 60)
	before := s.plan()
	s.Cluster.Remove("x-n0")
	s.Running = nil
	s.Now = now.Add(31 * time.Minute)
	after, changes := backfill.Revise(&s.Input, before)
	if !after[0].StartsBy(s.Now) || len(changes) > 0 {
		t.Errorf("got %+v, %+v", after, changes)
	}
}
