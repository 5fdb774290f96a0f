// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nodes  int
		set    func(*site)
		want   []int
		behind []string
	}{
		"a free node": {2, func(s *site) { s.waits("a", 1, 8, 60) }, []int{0}, []string{""}},
		"the first node that becomes free": {2, func(s *site) {
			s.runs("x", "n0", 50, all...)
			s.runs("y", "n1", 20, all...)
			s.waits("a", 1, 8, 60)
		}, []int{20}, []string{"y"}},
		"a gang waits for all its nodes": {3, func(s *site) {
			s.runs("x", "n0", 50, all...)
			s.runs("y", "n1", 20, all...)
			s.runs("z", "n2", 0, all...)
			s.waits("a", 2, 8, 60)
		}, []int{50}, []string{"x"}},
		"all Pods of a node have to end": {1, func(s *site) {
			s.runs("x", "n0", 50, 0, 1)
			s.runs("y", "n0", 20, 2, 3)
			s.waits("a", 1, 6, 60)
			s.waits("b", 1, 8, 60)
		}, []int{20, 80}, []string{"y", "a"}},
		"nobody knows when": {1, func(s *site) {
			s.runs("x", "n0", 0, 0)
			s.waits("a", 1, 8, 60)
		}, []int{-1}, []string{""}},
		"a gang that never fits": {1, func(s *site) { s.waits("a", 1, 9, 60) }, []int{-1}, []string{""}},
		"an invalid gang":        {1, func(s *site) { s.waits("a", 0, 0, 60) }, []int{-1}, []string{""}},
		"one after the other on the same node": {1, func(s *site) {
			s.runs("x", "n0", 30, all...)
			s.waits("a", 1, 8, 60)
			s.waits("b", 1, 8, 60)
		}, []int{30, 90}, []string{"x", "a"}},
		"the second fits beside the first": {1, func(s *site) {
			s.runs("x", "n0", 30, all...)
			s.waits("a", 1, 4, 60)
			s.waits("b", 1, 4, 0)
			s.waits("c", 1, 4, 0)
		}, []int{30, 30, 90}, []string{"x", "x", "a"}},
		"a later job that is short enough goes before": {2, func(s *site) {
			s.runs("x", "n0", 30, all...)
			s.waits("a", 2, 8, 60)
			s.waits("b", 1, 8, 30)
			s.waits("c", 1, 8, 31)
		}, []int{30, 0, 90}, []string{"x", "", "a"}},
		"who never ends is in the way for ever": {1, func(s *site) {
			s.waits("a", 1, 8, 0)
			s.waits("b", 1, 8, 10)
		}, []int{0, -1}, []string{"", ""}},
		"CPU is missing, not GPUs": {1, func(s *site) {
			s.holds("x", "n0", 10, placement.Use{GPUs: []int{0}, Percent: 100, CPU: 4000})
			s.holds("y", "n0", 40, placement.Use{CPU: 60000})
			s.needs("a", 1, 60, placement.Shape{GPUs: 7, CPU: 4000})
		}, []int{10}, []string{"x"}},
		"a Pod without GPUs has to end": {1, func(s *site) {
			s.holds("x", "n0", 10, placement.Use{GPUs: []int{0}, Percent: 100})
			s.holds("y", "n0", 40, placement.Use{CPU: 60000})
			s.waits("a", 1, 8, 60)
		}, []int{40}, []string{"x"}},
		"shares of a GPU": {1, func(s *site) {
			s.runs("x", "n0", 0, 1, 2, 3, 4, 5, 6, 7)
			s.holds("y", "n0", 10, placement.Use{GPUs: []int{0}, Percent: 60})
			s.holds("z", "n0", 20, placement.Use{GPUs: []int{0}, Percent: 30})
			s.needs("a", 1, 60, placement.Shape{Share: 50})
			s.needs("b", 1, 60, placement.Shape{Share: 50})
			s.needs("c", 1, 60, placement.Shape{GPUs: 1})
		}, []int{10, 20, 80}, []string{"y", "z", "b"}},
		"a broken time is not believed": {1, func(s *site) {
			s.runs("x", "n0", -5, all...)
			s.Running[0].Ends = now.Add(-5 * time.Minute)
			s.waits("a", 1, 8, 60)
		}, []int{0}, []string{"x"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, test.nodes)
			test.set(s)
			var got []int
			var behind []string
			for _, r := range s.plan() {
				got, behind = append(got, minutes(&r)), append(behind, r.Behind)
			}
			if !slices.Equal(got, test.want) || !slices.Equal(behind, test.behind) {
				t.Errorf("got %v behind %q, want %v behind %q", got, behind, test.want, test.behind)
			}
		})
	}
}

func TestPlacesAreBookedForTheLeastNumberOfMembers(t *testing.T) {
	t.Parallel()
	whole := placement.Shape{GPUs: 8}
	tests := map[string]struct {
		roles []placement.Role
		want  int
	}{
		"more may join":            {[]placement.Role{{Shape: whole, Min: 1, Max: 3}}, 1},
		"a role that may be empty": {[]placement.Role{{Shape: whole, Min: 0, Max: 1}, {Shape: whole, Min: 2, Max: 2}}, 2},
		"nobody has to start":      {[]placement.Role{{Shape: whole, Min: 0, Max: 3}}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 4)
			s.Waiting = []backfill.Waiting{{Key: "a", Gang: &placement.Gang{Roles: test.roles}}}
			first := s.plan()
			if got := first[0].Plan; got == nil || len(got.Members) != test.want {
				t.Errorf("got %+v, want %d places", got, test.want)
			}
			again, changes := backfill.Revise(&s.Input, first)
			if len(changes) > 0 || again[0].Plan != first[0].Plan {
				t.Errorf("the second time: got %+v, %+v", again, changes)
			}
		})
	}
}

// startable reports whether a job fits now beside the shadows of the bookings.
func (s *site) startable(bookings []backfill.Booking, gpus, minutes int, cpu int64) (fits bool) {
	s.t.Helper()
	s.Cluster.Try(func() bool {
		for _, shadow := range backfill.Shadows(s.Cluster, bookings, s.Now, time.Duration(minutes)*time.Minute) {
			if err := s.Cluster.Place(shadow); err != nil {
				s.t.Fatal(err)
			}
		}
		_, fits = s.Cluster.Find(s.Cluster.Request(placement.Shape{GPUs: gpus, CPU: cpu}), s.Cluster.Root())
		return false
	})
	return fits
}

func TestOthersStartIfTheyAreNotInTheWay(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.runs("x", "n0", 30, 0, 1, 2, 3)
	s.runs("y", "n1", 0, 0, 1, 2, 3, 4, 5)
	s.waits("a", 1, 8, 60)
	booked := s.plan()
	if minutes(&booked[0]) != 30 || len(booked[0].Leaving) != 1 || booked[0].Leaving[0].Job != "x" {
		t.Fatalf("got %+v", booked)
	}
	tests := map[string]struct {
		gpus, minutes int
		want          bool
	}{
		"it ends before":                             {4, 30, true},
		"it ends later":                              {4, 31, false},
		"its end is unknown":                         {4, 0, false},
		"it fits on another node, however long":      {2, 0, true},
		"more than the other node has, and too long": {3, 31, false},
	}
	for name, test := range tests {
		if got := s.startable(booked, test.gpus, test.minutes, 0); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	// An early end frees cards for the booking, not for others.
	s.Cluster.Remove("x-n0")
	if s.startable(booked, 4, 31, 0) || !s.startable(booked, 4, 30, 0) {
		t.Error("after an early end others got the booked cards")
	}
}

func TestShadowsKeepCPUAsWell(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.holds("x", "n0", 30, placement.Use{CPU: 20000, GPUs: []int{0, 1, 2, 3}, Percent: 100})
	s.needs("a", 1, 60, placement.Shape{GPUs: 6, CPU: 50000})
	booked := s.plan()
	if minutes(&booked[0]) != 30 {
		t.Fatalf("got %+v", booked)
	}
	// 64 cores: 20 are held and become free; 30 more are kept, 14 are left.
	if !s.startable(booked, 2, 0, 14000) || s.startable(booked, 2, 0, 14001) || !s.startable(booked, 0, 29, 44000) {
		t.Error("the CPU that is kept free is not 30 cores")
	}
}

func TestWhoLeavesLateHoldsNoMoreThanItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.holds("x", "n0", 30, placement.Use{CPU: 20000, GPUs: []int{0, 1, 2, 3}, Percent: 100})
	s.needs("a", 1, 60, placement.Shape{GPUs: 6, CPU: 50000})
	booked := s.plan()
	want := backfill.Shadows(s.Cluster, booked, now, 0)
	for _, late := range []time.Duration{-time.Second / 2, 0, time.Minute} {
		got := backfill.Shadows(s.Cluster, booked, booked[0].From.Add(late), 0)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v after the booking began (-before +then):\n%s", late, diff)
		}
	}
	if got := backfill.Shadows(s.Cluster, booked, booked[0].Until, 0); len(got) > 0 {
		t.Errorf("after its end, there must stay free %+v", got)
	}
}

func TestTheClusterIsUnchanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	s.runs("x", "n0", 30, all...)
	s.runs("y", "n1", 40, 0, 1)
	s.waits("a", 2, 8, 60)
	s.waits("b", 1, 8, 60)
	before := s.Cluster.Root().Percent()
	first := s.plan()
	if s.Cluster.Root().Percent() != before {
		t.Error("GPUs were left allocated")
	}
	again := s.plan()
	for i := range first {
		if !first[i].From.Equal(again[i].From) || !slices.EqualFunc(first[i].Plan.Members, again[i].Plan.Members, func(a, b placement.Member) bool {
			return a.Node == b.Node && slices.Equal(a.GPUs, b.GPUs)
		}) {
			t.Errorf("the second time: got %+v, want %+v", again[i], first[i])
		}
	}
}
