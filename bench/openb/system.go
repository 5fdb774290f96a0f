// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

// system is a cluster with a queue. Pods are tried in the order of their arrival; later
// ones may overtake Pods that do not fit.
type system struct {
	cluster *placement.Cluster
	policy  policy
	ledgers map[string]*ledger // verify the placements
	learns  bool
	// history predicts how long jobs run, from those that have ended.
	history *runtimes.History
	queue   []*job
	ends    ends
	now     float64
	used    int // percent of a GPU
	// area is the integral of used over time since area was last reset.
	area  float64
	waits []float64
}

func (w *workload) newSystem(e *entrant, seed int64) (*system, error) {
	p := e.newPolicy(w.pods, seed)
	names := e.names(w.arrivals(seed).ranks)
	cluster, err := w.newCluster(p, names)
	if err != nil {
		return nil, err
	}
	e.teach(p, cluster, w.pods, seed)
	sys := &system{cluster: cluster, policy: p, ledgers: map[string]*ledger{}, learns: e.mix == learned, history: runtimes.NewHistory()}
	for i, prefix := range names {
		sys.ledgers[prefix+w.nodes[i].Name] = newLedger(&w.nodes[i])
	}
	return sys, nil
}

// fill submits jobs that are already running, up to a demand.
func (sys *system) fill(s *dataset.Stream, demand float64) error {
	for asked := 0; float64(asked) < demand; {
		one := &job{Job: s.Running(), early: true}
		asked += one.Pod.Shape.Percent()
		if err := sys.submit(one); err != nil {
			return err
		}
	}
	return nil
}

// arrive advances the time to the arrival of a job and submits it.
func (sys *system) arrive(one *job) error {
	for len(sys.ends) > 0 && sys.ends[0].at <= one.Arrived {
		if err := sys.depart(heap.Pop(&sys.ends).(end)); err != nil {
			return err
		}
	}
	sys.pass(one.Arrived)
	return sys.submit(one)
}

func (sys *system) pass(until float64) {
	sys.area += float64(sys.used) * (until - sys.now)
	sys.now = until
}

// submit runs a job, or queues it.
func (sys *system) submit(one *job) error {
	one.request = sys.cluster.Request(one.Pod.Shape)
	if sys.learns {
		sys.learn(one)
	}
	started, err := sys.start(one)
	if !started {
		sys.queue = append(sys.queue, one)
	}
	return err
}

// learn counts a job as demand. Like gpu-scheduler, ours is told whether anything is known about how
// long the job runs, and not what that is. When the jobs came that run at the beginning, others had ended
// already.
func (sys *system) learn(one *job) {
	known := one.early || !sys.history.Estimate(taskOf(one)).Unknown()
	if knowing, ok := sys.policy.(expectant); ok && known {
		knowing.LearnEnding(sys.cluster, one.request)
		return
	}
	sys.policy.Learn(sys.cluster, one.request)
}

// taskOf returns what predictions are made by: the size.
func taskOf(one *job) runtimes.Task {
	return runtimes.Task{GPUs: float64(one.request.Percent()) / placement.Card}
}

// start runs a job if it fits.
func (sys *system) start(one *job) (started bool, err error) {
	place, found := sys.cluster.Find(one.request, sys.cluster.Root())
	if !found {
		return false, nil
	}
	r := newRecord(one.Pod, &place, func(name string) string { return name })
	if err := sys.ledgers[place.Node].take(&one.Pod.Shape, &r); err != nil {
		return false, fmt.Errorf("node %s: Pod %s: %w", place.Node, one.Name, err)
	}
	if err := sys.cluster.Place(placement.Pod{Name: one.Name, Node: place.Node, Use: place.Use}); err != nil {
		return false, err
	}
	sys.used += one.request.Percent()
	if one.late {
		sys.waits = append(sys.waits, sys.now-one.Arrived)
	}
	heap.Push(&sys.ends, end{at: sys.now + one.Duration, job: one, record: r})
	return true, nil
}

// depart ends a job and starts those that fit now.
func (sys *system) depart(e end) error {
	sys.pass(e.at)
	sys.cluster.Remove(e.job.Name)
	sys.ledgers[e.record.Node].giveBack(&e.job.Pod.Shape, &e.record)
	sys.used -= e.job.request.Percent()
	sys.history.Add(taskOf(e.job), time.Duration(e.job.Duration*float64(time.Second)))
	refused := map[*placement.Request]bool{}
	var failed error
	sys.queue = slices.DeleteFunc(sys.queue, func(one *job) bool {
		if failed != nil || refused[one.request] {
			return false
		}
		started, err := sys.start(one)
		failed = err
		refused[one.request] = !started
		return started
	})
	return failed
}
