// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
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
	line    lineup
	started []time.Duration
	behind  []string
	// booked are the bookings by job, of which there are bookings.
	booked   []*booking
	bookings int
	// refused is, for each class, the least bound that was refused in a pass; 0 for none.
	refused []time.Duration
	visits  int
	now     time.Duration
}

// newSimulation prepares a future. Jobs have their index in shared.jobs.
func newSimulation(in *Input, p *shared, draw int, random *rand.Rand) *simulation {
	count := len(p.jobs)
	s := &simulation{
		in: in, random: random, shared: p, pool: newPool(p, in.Nodes), line: newLineup(count), booked: make([]*booking, count),
		refused: make([]time.Duration, len(p.classes)), started: make([]time.Duration, count), behind: make([]string, count),
	}
	if len(p.scenarios) > 0 {
		s.coming = p.scenarios[draw%len(p.scenarios)]
	}
	for i := range in.Waiting {
		s.line.add(p.rankOf[i])
	}
	for i := range s.started {
		s.started[i] = never
	}
	for i := range in.Running {
		job := &in.Running[i]
		s.hold(job.Key, job.Holds, job.draw(random), job.planned())
	}
	return s
}

// hold makes a job run.
func (s *simulation) hold(key string, holds []Hold, until, planned time.Duration) {
	for _, hold := range holds {
		s.take(hold, planned)
	}
	if until < never {
		heap.Push(&s.ends, end{at: until, key: key, holds: holds, planned: planned})
	}
}

// run plays the future until all of the jobs that wait now have started, or nothing happens
// any more.
func (s *simulation) run() {
	left := len(s.in.Waiting)
	only := slices.IndexFunc(s.in.Waiting, func(w Waiting) bool { return s.in.Only != "" && w.Key == s.in.Only })
	cause := ""
	for {
		left -= s.pass(cause)
		if left == 0 || only >= 0 && s.started[only] < never || !s.advance(&cause) {
			return
		}
	}
}

// advance goes on to the next end or arrival; false if there is none.
func (s *simulation) advance(cause *string) bool {
	arrives := never
	if len(s.coming) > 0 {
		arrives = s.coming[0].after
	}
	if len(s.ends) > 0 && s.ends[0].at <= arrives {
		e := heap.Pop(&s.ends).(end) //nolint:forcetypeassert // only ends are pushed
		s.now, *cause = max(s.now, e.at), e.key
		for _, hold := range e.holds {
			s.giveBack(hold, e.planned)
		}
		return true
	}
	if arrives == never {
		return false
	}
	s.now, *cause = max(s.now, arrives), ""
	s.line.add(s.rankOf[s.coming[0].job])
	s.coming = s.coming[1:]
	return true
}

// pass starts what can start now, in order, and returns how many of the jobs that wait
// since the beginning have started.
func (s *simulation) pass(cause string) (count int) {
	clear(s.refused)
	looked := 0
	for rank := s.line.from(0); rank >= 0 && looked < scanned && s.percent > 0; rank = s.line.from(rank + 1) {
		looked++
		job := s.byRank[rank]
		if !s.try(job) {
			continue
		}
		s.started[job], s.behind[job] = s.now, cause
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
	what, waiting := &s.classes[id], s.jobs[job]
	if holds, fits := s.fit(what, plus(s.now, bound), mine); fits {
		if mine != nil {
			s.release(mine)
			s.booked[job] = nil
			s.bookings--
		}
		s.hold(waiting.Key, holds, plus(s.now, waiting.draw(s.random)), plus(s.now, bound))
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
