// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/bench/queue/trace"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

// system is a cluster with a queue and a way to serve it.
type system struct {
	*world
	entrant
	estimates string
	random    *rand.Rand
	line      line
	waiting   map[string]*job
	history   *runtimes.History
	teams     map[string]*team
	factors   map[string]float64
	factorsAt time.Time
	// reservations are those of the last pass.
	reservations []backfill.Booking
	claimed      claims
	forecasts    forecasts
	measures     measures
	moved        movements
	logError     error
}

// team is a virtual cluster.
type team struct {
	usage queueing.Usage
	// held and waiting are GPUs.
	held, waiting int
}

// movements counts what became of reservations.
type movements struct {
	made, later, earlier int
	reasons              map[string]int
}

// refreshEvery is how often the fair-share factors are computed.
const refreshEvery = 10 * time.Minute

func newSystem(e entrant, nodes int, estimates string, t *trace.Trace, seed uint64) (*system, error) {
	w, err := newWorld(nodes, t.Begin)
	if err != nil {
		return nil, err
	}
	if e.exact {
		estimates = exact
	}
	s := &system{
		world: w, entrant: e, estimates: estimates, random: rand.New(rand.NewPCG(seed, 2)), //nolint:gosec // simulation
		history: runtimes.NewHistory(), teams: map[string]*team{}, factors: map[string]float64{}, claimed: newClaims(), waiting: map[string]*job{}, line: line{classes: map[class]int{}},
		moved: movements{reasons: map[string]int{}},
	}
	s.measures = newMeasures(t)
	s.onStart = s.hasStarted
	return s, nil
}

// run replays a trace until all jobs that are measured have started.
func (s *system) run(t *trace.Trace) error {
	left := 0
	for i := range t.Jobs {
		if s.measures.counts(&t.Jobs[i]) {
			left++
		}
	}
	for next := 0; s.measures.started < left; {
		at, kind := s.nextEvent(t, next)
		if kind == nothing {
			return nil // some job never fits
		}
		s.pass(at)
		var err error
		switch kind {
		case arrival:
			err = s.arrive(newJob(t.Jobs[next], s.cluster))
			next++
		case departure:
			err = s.depart()
		default:
			err = s.serve()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// event is what happens next.
type event int

const (
	nothing event = iota
	arrival
	departure
	waking
)

// nextEvent returns what happens next, and when.
func (s *system) nextEvent(t *trace.Trace, next int) (at time.Time, kind event) {
	if next < len(t.Jobs) {
		at, kind = t.Jobs[next].Submitted, arrival
	}
	if len(s.ends) > 0 && (kind == nothing || !s.ends[0].ended.After(at)) {
		at, kind = s.ends[0].ended, departure
	}
	if wake := s.claimed.wake(); !wake.IsZero() && kind != nothing && wake.Before(at) {
		at, kind = wake, waking
	}
	return at, kind
}

// pass lets time pass.
func (s *system) pass(until time.Time) {
	s.measures.pass(s, until)
	for _, one := range s.teams {
		one.usage = one.usage.Plus(float64(one.held), until, halfLife)
	}
	s.now = until
}

// arrive submits a job.
func (s *system) arrive(j *job) error {
	j.measured = s.measures.counts(&j.Job)
	s.declare(j)
	if s.teams[j.Cluster] == nil {
		s.teams[j.Cluster] = &team{usage: queueing.Usage{At: s.now}}
	}
	s.teams[j.Cluster].waiting += j.held()
	s.learn(j)
	j.item = j.inQueue()
	s.refresh(false)
	j.turn = s.turnOf(j)
	at := s.line.insert(j)
	s.waiting[j.key] = j
	if err := s.serveArrival(j, at); err != nil {
		return err
	}
	s.forecasts.atSubmission(s, j)
	return nil
}

// learn lets the packing policy know of a request, as gpu-scheduler does.
func (s *system) learn(j *job) {
	if j.estimate.Unknown() {
		s.policy.Learn(s.cluster, j.request)
	} else {
		s.policy.LearnEnding(s.cluster, j.request)
	}
}

// inQueue returns the job as the queue sees it.
func (j *job) inQueue() queueing.Job {
	return queueing.Job{Key: j.key, Queue: j.Cluster, Submitted: j.Submitted, GPUs: float64(j.GPUs), Runtime: j.estimate.Runtime()}
}

// declare sets what is known of a job's duration.
func (s *system) declare(j *job) {
	limit := j.Limit(s.random)
	lazy := s.random.IntN(2) == 0
	switch {
	case s.estimates == exact:
		j.estimate = runtimes.Exactly(j.Duration)
		return
	case s.estimates == declared, s.estimates == mixed && !lazy:
		j.limit = limit
	}
	j.estimate = s.history.Estimate(j.task())
}

func (j *job) task() runtimes.Task {
	return runtimes.Task{Namespace: j.Cluster, GPUs: float64(j.GPUs), Limit: j.limit}
}

// depart ends the next job and starts who fits now.
func (s *system) depart() error {
	j := s.end()
	s.teams[j.Cluster].held -= j.held()
	s.history.Add(j.task(), j.Duration)
	if len(s.ends) > 0 && s.ends[0].ended.Equal(s.now) {
		return nil // the last of those that end together serves
	}
	s.refresh(false)
	return s.serve()
}

// hasStarted is called for each job that starts.
func (s *system) hasStarted(j *job) {
	one := s.teams[j.Cluster]
	one.held += j.held()
	one.waiting -= j.held()
	s.line.remove(j)
	delete(s.waiting, j.key)
	s.measures.start(j)
	s.forecasts.started(j)
}

// refresh computes the fair-share factors if that is due, and the order by them.
func (s *system) refresh(now bool) {
	if !now && s.now.Before(s.factorsAt.Add(refreshEvery)) {
		return
	}
	s.factorsAt = s.now
	if s.order != nil || s.options.Policy == queueing.FIFO {
		return
	}
	shares := make([]queueing.Share, 0, len(s.teams))
	for name, one := range s.teams {
		shares = append(shares, queueing.Share{Name: name, Usage: one.usage.GPUSeconds, Waits: one.waiting > 0})
	}
	s.factors = queueing.Factors(shares)
	s.line.reorder(s.options, s.factors)
}

// turnOf returns a job's key.
func (s *system) turnOf(j *job) float64 {
	if s.order != nil {
		return s.order(s, j)
	}
	factor, known := s.factors[j.Cluster]
	if !known {
		factor = 1
	}
	return s.options.Key(&j.item, factor)
}

// reorderByHand sorts by an order that is not the product's, and that changes whenever
// something starts or ends.
func (s *system) reorderByHand() {
	for _, j := range s.line.jobs {
		j.turn = s.order(s, j)
	}
	slices.SortFunc(s.line.jobs, before)
}
