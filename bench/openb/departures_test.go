// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// timed is a Pod that runs for some seconds.
func timed(p pod, seconds int64) pod {
	p.deleted = seconds
	return p
}

func TestAStreamAsksForItsLoad(t *testing.T) {
	pods := []pod{timed(whole("a", 1), 100), timed(share("b", 50), 300)}
	s, err := newStream(pods, nil, 10*placement.Card, 0.5, 1)
	if err != nil {
		t.Fatal(err)
	}
	// A job asks for (100 s · 100 % + 300 s · 50 %) / 2 = 12,500; 500 % are asked
	// for if one comes every 25 s.
	if s.interval != 25 {
		t.Errorf("a job comes every %g s, want 25", s.interval)
	}
	now, work := 0.0, 0.0
	for range 20_000 {
		one := s.next(now)
		now = one.arrived
		work += one.duration * float64(one.pod.shape.Percent())
	}
	if load := work / now / (10 * placement.Card); math.Abs(load-0.5) > 0.02 {
		t.Errorf("the load is %.3f, want 0.5", load)
	}
}

func TestPodsWithoutTimesRunAsLongAsOthers(t *testing.T) {
	s, err := newStream([]pod{whole("a", 1)}, []pod{timed(share("x", 10), 100), timed(share("y", 20), 300)}, placement.Card, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[float64]bool{}
	for range 100 {
		one := s.next(0)
		seen[one.duration] = true
		if one.pod.name != "a" {
			t.Fatalf("Pod %s comes", one.pod.name)
		}
	}
	if len(seen) != 2 || !seen[100] || !seen[300] {
		t.Errorf("durations %v, want 100 and 300", seen)
	}
}

func TestNobodyWaitsWhereThereIsRoom(t *testing.T) {
	w := tiny(t)
	s, err := w.departures(&entrant{policy: bestFit, ties: byName}, &load{asked: 0.02, jobs: 1000}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.waited > 1 || s.allocated < 0.5 || s.allocated > 6 {
		t.Errorf("got %+v, want about 2 %% allocated and no waiting", *s)
	}
}

// One GPU, Pods of one second that take all of it, twice as many as it can serve:
// it is always in use, and the queue grows by half of those who come.
func TestTheQueueGrowsUnderOverload(t *testing.T) {
	w := &workload{nodes: oneNode(1), pods: []pod{timed(whole("a", 1), 1)}, capacity: placement.Card}
	s, err := w.departures(&entrant{policy: bestFit, ties: byName}, &load{asked: 2, jobs: 1000}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.allocated < 99.99 {
		t.Errorf("%.2f %% allocated, want all", s.allocated)
	}
	if s.waiting < 650 || s.waiting > 850 {
		t.Errorf("%d wait, want about 750", s.waiting)
	}
	if s.longWait <= s.meanWait || s.meanWait <= 0 {
		t.Errorf("waits: mean %g, p99 %g", s.meanWait, s.longWait)
	}
}

func TestASmallPodPassesALargeOneThatDoesNotFit(t *testing.T) {
	large, small, first := timed(whole("large", 2), 10), timed(whole("small", 1), 10), timed(whole("first", 1), 10)
	w := &workload{nodes: oneNode(2), pods: []pod{large, small, first}, capacity: 2 * placement.Card}
	sys, err := w.newSystem(&entrant{policy: bestFit, ties: byName}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range []*pod{&first, &large, &small} {
		if err := sys.arrive(&job{name: p.name, pod: p, arrived: float64(i), duration: 10, late: true}); err != nil {
			t.Fatal(err)
		}
	}
	if sys.used != 2*placement.Card || len(sys.queue) != 1 || sys.queue[0].pod != &large {
		t.Fatalf("%d %% are used and %d Pods wait, want the large one to wait", sys.used, len(sys.queue))
	}
	// The small one came at 2 s and ends at 12 s: then the large one starts.
	if err := sys.arrive(&job{name: "late", pod: &small, arrived: 13, duration: 1}); err != nil {
		t.Fatal(err)
	}
	if last := sys.waits[len(sys.waits)-1]; last != 11 {
		t.Errorf("the large Pod waited %g s, want 11", last)
	}
}
