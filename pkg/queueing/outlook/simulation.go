// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// never is after all other times. Times in a simulation are durations from now.
const never = time.Duration(math.MaxInt64)

const (
	// scanned is how many waiting jobs are looked at when something ends. Who is further
	// behind rarely starts, and does a little later here.
	scanned = 400
	// mostVisits bounds, for each draw, the nodes that are looked at to make bookings, so
	// that estimates for 10,000 jobs on 10,000 nodes take no more than a second. The jobs
	// after that start without.
	mostVisits = 300_000
)

// simulation is one future.
type simulation struct {
	in     *Input
	random *rand.Rand
	*shared
	*pool
	ends ends
	// coming are the jobs that have not come yet, the next one first.
	coming []arrival
	// line is who waits at the moment.
	line lineup
	// starts are those of the jobs, and first are the first jobs of each queue that may wait still.
	starts []start
	first  []int
	// ended are, for each node, what the ends depended on that it has seen.
	ended []basis
	// booked are the bookings by job, of which there are bookings.
	booked   []*booking
	bookings int
	// refused is, for each class, the least bound that was refused in a pass; 0 for none.
	refused []time.Duration
	visits  int
	now     time.Duration
	// cause is the end that has just come; zero at the beginning and when a job has come.
	cause end
}

// newSimulation prepares a future. Jobs have their index in shared.jobs.
func newSimulation(in *Input, p *shared, draw int, random *rand.Rand) *simulation {
	count := len(p.jobs)
	s := &simulation{
		in: in, random: random, shared: p, pool: newPool(p, in.Nodes), line: newLineup(count), booked: make([]*booking, count),
		refused: make([]time.Duration, len(p.classes)), starts: make([]start, count), ended: make([]basis, len(in.Nodes)), first: slices.Clone(p.firstOf),
	}
	if len(p.scenarios) > 0 {
		s.coming = p.scenarios[draw%len(p.scenarios)]
	}
	for i := range in.Waiting {
		s.line.add(p.rankOf[i])
	}
	for i := range s.starts {
		s.starts[i].at = never
	}
	for i := range in.Running {
		job := &in.Running[i]
		s.hold(&end{at: job.draw(random), planned: job.planned(), holds: job.Holds, key: job.Key, running: job.Key, basis: basisOf(job.Key, &job.Duration)})
	}
	return s
}

// start is how a job has started.
type start struct {
	// at is never as long as it has not.
	at time.Duration
	// behind is the running job whose end, directly or not, let it start; empty for none.
	behind string
	basis
	// passes is true if others waited that are before it in its queue.
	passes bool
}

// basis is what a time depends on that is not well known: a job with an assumed run time, empty for none, and run times
// that were learned from few jobs.
type basis struct {
	assumed string
	rough   bool
}

func basisOf(key string, duration *Duration) basis {
	made := basis{rough: duration.Rough}
	if duration.Assumed > 0 {
		made.assumed = key
	}
	return made
}

// and adds what else a time depends on.
func (b basis) and(other basis) basis {
	return basis{assumed: cmp.Or(b.assumed, other.assumed), rough: b.rough || other.rough}
}

// hold makes a job run until an end.
func (s *simulation) hold(until *end) {
	for _, hold := range until.holds {
		s.take(hold, until.planned)
	}
	if until.at < never {
		heap.Push(&s.ends, *until)
	}
}

// run plays the future until all of the jobs that wait now have started, or nothing happens
// any more.
func (s *simulation) run() {
	left := len(s.in.Waiting)
	only := slices.IndexFunc(s.in.Waiting, func(w Waiting) bool { return s.in.Only != "" && w.Key == s.in.Only })
	for {
		left -= s.pass()
		if left == 0 || only >= 0 && s.starts[only].at < never || !s.advance() {
			return
		}
	}
}

// advance goes on to the next end or arrival; false if there is none.
func (s *simulation) advance() bool {
	arrives := never
	if len(s.coming) > 0 {
		arrives = s.coming[0].after
	}
	if len(s.ends) > 0 && s.ends[0].at <= arrives {
		e := heap.Pop(&s.ends).(end) //nolint:forcetypeassert // only ends are pushed
		s.now, s.cause = max(s.now, e.at), e
		for _, hold := range e.holds {
			s.giveBack(hold, e.planned)
			s.ended[hold.Node] = e.and(s.ended[hold.Node])
		}
		return true
	}
	if arrives == never {
		return false
	}
	s.now, s.cause = max(s.now, arrives), end{}
	s.line.add(s.rankOf[s.coming[0].job])
	s.coming = s.coming[1:]
	return true
}

// pass starts what can start now, in order, and returns how many of the jobs that wait
// since the beginning have started.
func (s *simulation) pass() (count int) {
	clear(s.refused)
	looked := 0
	for rank := s.line.from(0); rank >= 0 && looked < scanned && s.percent > 0; rank = s.line.from(rank + 1) {
		looked++
		job := s.byRank[rank]
		if !s.try(job) {
			continue
		}
		s.line.remove(rank)
		if job < len(s.in.Waiting) {
			count++
		}
	}
	return count
}

// try starts a job if it fits. If it does not, it gets a booking if it is among the
// first.
func (s *simulation) try(job int) bool {
	id, bound, mine := s.classOf[job], s.bounds[job], s.booked[job]
	if least := s.refused[id]; least > 0 && mine == nil && bound >= least {
		return false
	}
	what := &s.classes[id]
	if holds, fits := s.fit(what, plus(s.now, bound), mine); fits {
		if mine != nil {
			s.release(mine)
			s.booked[job] = nil
			s.bookings--
		}
		s.begin(job, holds)
		return true
	}
	if mine == nil && s.bookings < s.in.Booked && s.visits < mostVisits {
		s.visits += len(s.nodes)
		if r := s.book(what, s.now); r != nil {
			s.booked[job] = r
			s.bookings++
		}
	}
	if mine == nil {
		s.refused[id] = bound
	}
	return false
}

// begin has a job run on some nodes from now on.
func (s *simulation) begin(job int, holds []Hold) {
	waiting, one := s.jobs[job], start{at: s.now, behind: s.cause.running, basis: s.cause.basis, passes: s.isPassing(job)}
	for _, hold := range holds {
		one.basis = one.and(s.ended[hold.Node])
	}
	s.starts[job] = one
	s.hold(&end{
		at: plus(s.now, waiting.draw(s.random)), planned: plus(s.now, s.bounds[job]), holds: holds,
		key: waiting.Key, running: one.behind, basis: basisOf(waiting.Key, &waiting.Duration).and(one.basis),
	})
}

// isPassing reports whether others wait that are before a job in its queue.
func (s *simulation) isPassing(job int) bool {
	if job >= len(s.in.Waiting) {
		return false
	}
	first := &s.first[s.queueOf[job]]
	for s.starts[*first].at < never {
		*first = s.nextOf[*first]
	}
	return *first != job
}

func plus(at, duration time.Duration) time.Duration {
	if at > never-duration {
		return never
	}
	return at + duration
}

// end is when a job ends, and what it holds until then.
type end struct {
	at      time.Duration
	planned time.Duration
	key     string
	holds   []Hold
	// running is the job that runs now whose end this is, or lets this job start; empty for none.
	running string
	// basis is what the end depends on.
	basis
}

// ends implements heap.Interface, the first end first.
type ends []end

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].key < e[j].key
}
func (e ends) Swap(i, j int)    { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(pushed any) { *e = append(*e, pushed.(end)) } //nolint:forcetypeassert // only ends are pushed
func (e *ends) Pop() any {
	last := len(*e) - 1
	popped := (*e)[last]
	*e = (*e)[:last]
	return popped
}
