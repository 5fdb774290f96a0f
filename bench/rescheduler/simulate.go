// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

const (
	// turnSeconds is how long it takes until an evicted Pod, or gang, runs again
	// elsewhere.
	turnSeconds = 60
	// horizon is the length of the measurement.
	horizon = 24 * 3600
)

// system is a way to reschedule.
type system interface {
	// act takes the next action, and returns for how many seconds that keeps the system
	// busy; 0 if there is nothing to do until something changes.
	act(r *trial) (seconds float64, err error)
}

// trial is one system at work on one site.
type trial struct {
	*site
	system system
	// frozen is true if time stands still.
	frozen bool
	// queue are the waiting jobs.
	queue []*job
	// holds is true while places are reserved: no job starts.
	holds bool
	// waited are the large tasks that did not fit at first.
	waited []*job
	// moved counts evictions of Pods, lost the work that these lost.
	moved int
	lost  float64
	// evicted are the distinct Pods that were evicted.
	evicted map[string]bool
	// broken are gangs of which a part was evicted while the rest ran.
	broken map[string]bool
	// times are how long each decision took.
	times []time.Duration
}

// simulate runs a system until all large tasks run, or the time is over. With a time of
// 0, time stands still, and the system runs until there is nothing left to do.
func simulate(on *site, large []*job, by system, until float64) (*trial, error) {
	s, err := on.copy()
	if err != nil {
		return nil, err
	}
	r := &trial{site: s, system: by, frozen: until == 0, queue: large, evicted: map[string]bool{}, broken: map[string]bool{}}
	for _, j := range r.queue {
		s.jobs[j.name] = j
	}
	if err := r.schedule(); err != nil {
		return nil, err
	}
	r.waited = slices.Clone(r.queue)
	for (r.frozen || r.now < until) && len(r.startedLater()) < len(r.waited) {
		busy, err := by.act(r)
		if err != nil {
			return nil, err
		}
		if busy == 0 && r.frozen {
			break
		}
		if busy == 0 {
			busy = turnSeconds
		}
		if err := r.pass(r.now + busy); err != nil {
			return nil, err
		}
		if err := r.schedule(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// pass advances the time, minute by minute: running jobs end, others arrive, and those
// that fit start.
func (r *trial) pass(until float64) error {
	for r.now < until && !r.frozen {
		r.now = min(until, r.now+turnSeconds)
		r.endAll()
		for len(r.upcoming) > 0 && r.upcoming[0].arrives <= r.now {
			j := r.upcoming[0]
			r.upcoming = r.upcoming[1:]
			r.jobs[j.name] = j
			r.queue = append(r.queue, j)
		}
		if err := r.schedule(); err != nil {
			return err
		}
	}
	return nil
}

// endAll removes the jobs whose time is over.
func (r *trial) endAll() {
	for _, j := range r.sorted() {
		if j.started && j.ends <= r.now && j.runs() {
			r.end(j)
		}
	}
}

// schedule starts the jobs that fit, in the order of the queue: the large tasks have
// waited longest.
func (r *trial) schedule() error {
	if r.holds {
		return nil
	}
	refused := map[string]bool{}
	var failed error
	r.queue = slices.DeleteFunc(r.queue, func(j *job) bool {
		key := fmt.Sprint(j.shape.Key(), j.missing())
		if failed != nil || refused[key] {
			return false
		}
		started, err := r.start(j)
		failed = err
		refused[key] = !started
		return started
	})
	return failed
}

// displace evicts a Pod, which then queues behind the large tasks.
func (r *trial) displace(j *job, index int) {
	r.moved++
	lost := r.unsaved(j, index)
	r.lost += lost * float64(j.shape.Percent()) / placement.Card
	r.evicted[j.podName(index)] = true
	r.evict(j, index)
	if !slices.Contains(r.queue, j) {
		r.queue = append(r.queue, j)
	}
}

// displaceAll evicts all Pods of a job.
func (r *trial) displaceAll(j *job) {
	for i := range j.placed {
		if j.placed[i] {
			r.displace(j, i)
		}
	}
}

// unplaced counts the evicted Pods that have no place.
func (r *trial) unplaced() int {
	count := 0
	for _, j := range r.jobs {
		for i, placed := range j.placed {
			if !placed && r.evicted[j.podName(i)] {
				count++
			}
		}
	}
	return count
}

// startedLater returns those of the tasks that did not fit at first which have started.
func (r *trial) startedLater() (list []*job) {
	for _, j := range r.waited {
		if j.started {
			list = append(list, j)
		}
	}
	return list
}

// regained returns how many GPUs these tasks got.
func (r *trial) regained() int {
	percent := 0
	for _, j := range r.startedLater() {
		percent += j.percent()
	}
	return percent / placement.Card
}

// byUse returns the nodes with GPUs, least utilized first, and the utilization of the
// GPUs of each.
func (r *trial) byUse() (names []string, used map[string]float64) {
	used = map[string]float64{}
	for _, j := range r.jobs {
		for i, placed := range j.placed {
			if placed {
				used[j.pods[i].Node] += float64(j.shape.Percent())
			}
		}
	}
	for i := range r.nodes {
		if gpus := len(r.nodes[i].GPUs); gpus > 0 {
			used[r.nodes[i].Name] /= float64(gpus * placement.Card)
			names = append(names, r.nodes[i].Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(used[a], used[b]), cmp.Compare(a, b)) })
	return names, used
}

// dequeue removes a job from the queue if it runs.
func (r *trial) dequeue(j *job) {
	if j.runs() {
		r.queue = slices.DeleteFunc(r.queue, func(other *job) bool { return other == j })
	}
}
