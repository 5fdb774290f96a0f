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
	// mostVisits bounds, for each draw, the nodes that are looked at to make reservations, so
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
	ends     ends
	scenario scenario
	coming   []*Coming // those that have not come yet, in order of arrival
	// jobs are those that wait, then those that come; next and previous link those that
	// wait at the moment, in their order.
	jobs           []*Waiting
	next, previous []int
	started        []time.Duration
	behind         []string
	reserved       map[int]*reservation
	visits         int
	now            time.Duration
}

// none is the index of no job, and the begin of the list of those that wait.
const none = 0

// newSimulation prepares a future. Jobs have the index in jobs plus 1, none is 0.
func newSimulation(in *Input, p *shared, draw int, random *rand.Rand) *simulation {
	s := &simulation{in: in, random: random, shared: p, pool: newPool(p, in.Nodes), reserved: map[int]*reservation{}}
	for i := range in.Waiting {
		s.jobs = append(s.jobs, &in.Waiting[i])
	}
	if len(p.scenarios) > 0 {
		s.scenario = p.scenarios[draw%len(p.scenarios)]
	}
	s.coming = s.scenario.coming
	for _, one := range s.coming {
		s.jobs = append(s.jobs, &one.Waiting)
	}
	s.next, s.previous = make([]int, len(s.jobs)+1), make([]int, len(s.jobs)+1)
	for i := range in.Waiting {
		s.link(s.previous[none], i+1)
	}
	s.started, s.behind = make([]time.Duration, len(s.jobs)), make([]string, len(s.jobs))
	for i := range s.started {
		s.started[i] = never
	}
	for i := range in.Running {
		job := &in.Running[i]
		remains := never
		if job.Draw != nil {
			remains = max(job.Draw(random), 0)
		}
		planned := never
		if job.Bound > 0 {
			planned = job.Bound
		}
		s.hold(job.Key, job.Holds, remains, planned)
	}
	return s
}

// link inserts a job after another one.
func (s *simulation) link(after, job int) {
	next := s.next[after]
	s.next[after], s.previous[job] = job, after
	s.next[job], s.previous[next] = next, job
}

func (s *simulation) unlink(job int) {
	s.next[s.previous[job]], s.previous[s.next[job]] = s.next[job], s.previous[job]
}

// hold makes a job run.
func (s *simulation) hold(key string, holds []Hold, until, planned time.Duration) {
	e := end{at: until, key: key, holds: holds, planned: planned}
	for _, hold := range holds {
		s.take(hold, planned)
	}
	if until < never {
		heap.Push(&s.ends, e)
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
		arrives = s.coming[0].After
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
	job := len(s.jobs) - len(s.coming) + 1
	s.coming = s.coming[1:]
	after := none
	for at := s.next[none]; at != none && s.jobs[at-1].Turn <= s.jobs[job-1].Turn; at = s.next[at] {
		after = at
	}
	s.link(after, job)
	return true
}

// pass starts what can start now, in order, and returns how many of the jobs that wait
// since the beginning have started.
func (s *simulation) pass(cause string) (count int) {
	refused := make([]time.Duration, len(s.classes)) // the least bound that was refused, 0 for none
	looked := 0
	for job := s.next[none]; job != none && looked < scanned && s.percent > 0; job = s.next[job] {
		looked++
		if !s.try(job, refused) {
			continue
		}
		s.started[job-1], s.behind[job-1] = s.now, cause
		s.unlink(job)
		if job <= len(s.in.Waiting) {
			count++
		}
	}
	return count
}

// try starts a job if it fits. If it does not, it gets a reservation if it is among the
// first.
func (s *simulation) try(job int, refused []time.Duration) bool {
	one := s.jobs[job-1]
	bound := never
	if one.Bound > 0 {
		bound = one.Bound
	}
	mine := s.reserved[job]
	id := s.scenario.classAt(s.shared, job-1)
	what := &s.classes[id]
	if refused[id] > 0 && mine == nil && bound >= refused[id] {
		return false
	}
	if holds, fits := s.fit(what, plus(s.now, bound), mine); fits {
		s.release(mine)
		delete(s.reserved, job)
		duration := never
		if one.Draw != nil {
			duration = max(one.Draw(s.random), 0)
		}
		s.hold(one.Key, holds, plus(s.now, duration), plus(s.now, bound))
		return true
	}
	if mine == nil && len(s.reserved) < s.in.Reserved && s.visits < mostVisits {
		s.visits += len(s.nodes)
		if r := s.reserve(what, s.now); r != nil {
			s.reserved[job] = r
		}
	}
	if mine == nil {
		refused[id] = bound
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
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(one any) { *e = append(*e, one.(end)) } //nolint:forcetypeassert // only ends are pushed
func (e *ends) Pop() any {
	last := len(*e) - 1
	one := (*e)[last]
	*e = (*e)[:last]
	return one
}
