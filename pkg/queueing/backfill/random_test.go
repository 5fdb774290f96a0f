// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

// randomSite returns a site with random jobs, that run and that wait.
func randomSite(t *testing.T, random *rand.Rand) *site {
	t.Helper()
	s := newSite(t, 2+random.IntN(5))
	for i := range random.IntN(30) {
		node := fmt.Sprintf("n%d", random.IntN(5))
		place, fits := s.Cluster.On(node, s.Cluster.Request(placement.Shape{GPUs: 1 + random.IntN(4), CPU: random.Int64N(20000)}))
		if fits {
			s.holds(fmt.Sprintf("r%d", i), node, random.IntN(100), place.Use)
		}
	}
	for i := range 1 + random.IntN(8) {
		s.needs(fmt.Sprintf("w%d", i), 1+random.IntN(3), random.IntN(120), placement.Shape{GPUs: 1 + random.IntN(8), CPU: random.Int64N(30000)})
	}
	return s
}

// at calls do with the cluster as the bookings expect it after some time.
func (s *site) at(moment time.Time, bookings []backfill.Booking, do func()) (ok bool) {
	ok = true
	s.Cluster.Try(func() bool {
		for _, job := range s.Running {
			if !job.Ends.IsZero() && !job.Ends.After(moment) {
				for _, pod := range job.Pods {
					s.Cluster.Remove(pod)
				}
			}
		}
		for _, r := range bookings {
			if r.Plan == nil || r.From.After(moment) || !r.Until.IsZero() && !r.Until.After(moment) {
				continue
			}
			for i, m := range r.Plan.Members {
				ok = ok && s.Cluster.Has(m.Node, &m.Use)
				if err := s.Cluster.Place(placement.Pod{Name: fmt.Sprintf("%s member %d", r.Key, i), Node: m.Node, Use: m.Use}); err != nil {
					ok = false
				}
			}
		}
		do()
		return false
	})
	return ok
}

func TestBookingsNeverShareAnything(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	booked := 0
	for round := range 400 {
		s := randomSite(t, random)
		bookings := s.plan()
		for _, r := range bookings {
			if r.Plan == nil {
				continue
			}
			booked++
			if !s.at(r.From, bookings, func() {}) {
				t.Fatalf("round %d: when %s begins, not all fit:\n%+v", round, r.Key, bookings)
			}
		}
	}
	if booked < 1000 {
		t.Errorf("only %d bookings", booked)
	}
}

func TestTheFirstOfAllGetsTheFirstTime(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(2, 2))
	for round := range 400 {
		s := randomSite(t, random)
		first := s.plan()[0]
		gang := s.Waiting[0].Gang
		times := []time.Time{now}
		for _, job := range s.Running {
			if !job.Ends.IsZero() {
				times = append(times, job.Ends)
			}
		}
		slices.SortFunc(times, time.Time.Compare)
		want := time.Time{}
		for _, at := range times {
			fits := false
			s.at(at, nil, func() { _, fits, _ = s.Cluster.Plan(gang) })
			if fits {
				want = at
				break
			}
		}
		if !first.From.Equal(want) {
			t.Fatalf("round %d: got %v, want %v", round, first.From, want)
		}
	}
}

func TestWhoStartsBesideTheShadowsDelaysNobody(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 3))
	started := 0
	for round := range 400 {
		s := randomSite(t, random)
		before := s.plan()
		shape, bound := placement.Shape{GPUs: 1 + random.IntN(4), CPU: random.Int64N(20000)}, time.Duration(random.IntN(100))*time.Minute
		var place placement.Place
		fits := false
		s.Cluster.Try(func() bool {
			for _, shadow := range backfill.Shadows(s.Cluster, before, now, bound) {
				if err := s.Cluster.Place(shadow); err != nil {
					t.Fatal(err)
				}
			}
			place, fits = s.Cluster.Find(s.Cluster.Request(shape), s.Cluster.Root())
			return false
		})
		if !fits {
			continue
		}
		started++
		s.holds("new", place.Node, int(bound/time.Minute), place.Use)
		after, changes := backfill.Revise(&s.Input, before)
		for _, change := range changes {
			if change.Later() {
				t.Fatalf("round %d: %s was delayed: %s\nbefore %+v\nafter %+v", round, change.Key, change.Cause, before, after)
			}
		}
	}
	if started < 50 {
		t.Errorf("only %d jobs started", started)
	}
}
