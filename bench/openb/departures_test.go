// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

// timed is a Pod that runs for some seconds.
func timed(p dataset.Pod, seconds int64) dataset.Pod {
	p.Deleted = seconds
	return p
}

func TestNoPodWaitsIfThereIsRoom(t *testing.T) {
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
// it is always in use, and the queue grows by half of the arrivals.
func TestTheQueueGrowsUnderOverload(t *testing.T) {
	w := &workload{nodes: oneNode(1), pods: []dataset.Pod{timed(whole("a", 1), 1)}, capacity: placement.Card}
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

func TestASmallPodOvertakesALargeOneThatDoesNotFit(t *testing.T) {
	large, small, first := timed(whole("large", 2), 10), timed(whole("small", 1), 10), timed(whole("first", 1), 10)
	w := &workload{nodes: oneNode(2), pods: []dataset.Pod{large, small, first}, capacity: 2 * placement.Card}
	sys, err := w.newSystem(&entrant{policy: bestFit, ties: byName}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range []*dataset.Pod{&first, &large, &small} {
		if err := sys.arrive(&job{Job: &dataset.Job{Name: p.Name, Pod: p, Arrived: float64(i), Duration: 10}, late: true}); err != nil {
			t.Fatal(err)
		}
	}
	if sys.used != 2*placement.Card || len(sys.queue) != 1 || sys.queue[0].Pod != &large {
		t.Fatalf("%d %% are used and %d Pods wait, want the large one to wait", sys.used, len(sys.queue))
	}
	// The small one came at 2 s and ends at 12 s: then the large one starts.
	if err := sys.arrive(&job{Job: &dataset.Job{Name: "late", Pod: &small, Arrived: 13, Duration: 1}}); err != nil {
		t.Fatal(err)
	}
	if last := sys.waits[len(sys.waits)-1]; last != 11 {
		t.Errorf("the large Pod waited %g s, want 11", last)
	}
}

// counting counts what it is told about Pods.
type counting struct {
	policy
	unknown, ending int
}

func (c *counting) Learn(*placement.Cluster, *placement.Request)       { c.unknown++ }
func (c *counting) LearnEnding(*placement.Cluster, *placement.Request) { c.ending++ }

func TestRunTimesArePredictedFromJobsThatHaveEnded(t *testing.T) {
	p := timed(whole("a", 1), 10)
	w := &workload{nodes: oneNode(2), pods: []dataset.Pod{p}, capacity: 2 * placement.Card}
	sys, err := w.newSystem(&entrant{policy: ours, ties: byName, mix: learned}, 1)
	if err != nil {
		t.Fatal(err)
	}
	told := &counting{policy: sys.policy}
	sys.policy = told
	for i := range 12 {
		arrived := float64(20 * i)
		if err := sys.arrive(&job{Job: &dataset.Job{Name: fmt.Sprint(i), Pod: &p, Arrived: arrived, Duration: 10}}); err != nil {
			t.Fatal(err)
		}
	}
	if told.unknown != 8 || told.ending != 4 {
		t.Errorf("nothing was known of %d jobs, and %d were predicted; want 8 and 4", told.unknown, told.ending)
	}
	early := &job{Job: &dataset.Job{Name: "early", Pod: &p, Duration: 10}, early: true}
	sys.history = runtimes.NewHistory()
	if err := sys.submit(early); err != nil {
		t.Fatal(err)
	}
	if told.unknown != 8 || told.ending != 5 {
		t.Errorf("the end of a job that ran at the beginning was not expected: %d and %d", told.unknown, told.ending)
	}
}
