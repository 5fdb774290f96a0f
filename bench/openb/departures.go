// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
)

// load is the arrivals of a replay with departures.
type load struct {
	// asked is the average demand, as a fraction of the GPUs.
	asked float64
	// timed are Pods to take durations from, for a trace without times.
	timed []dataset.Pod
	// jobs is how many arrive during the measurement; half as many arrive before.
	jobs int
}

func (l *load) warmUp() int { return l.jobs / 2 }

// steady is the result of a replay with departures.
type steady struct {
	allocated float64 // percent of the GPUs, averaged over time
	// meanWait and longWait are the mean and the 99th percentile of the waiting times, in
	// seconds; Pods that still wait count with their time so far.
	meanWait, longWait float64
	// waited is the fraction of the Pods that did not start at once, in percent.
	waited  float64
	waiting int // at the end
}

// departures replays a steady state: jobs that run at a random moment, then jobs that
// arrive and end.
func (w *workload) departures(e *entrant, l *load, seed int64) (*steady, error) {
	s, err := dataset.NewStream(w.pods, l.timed, w.capacity, l.asked, seed)
	if err != nil {
		return nil, err
	}
	sys, err := w.newSystem(e, seed)
	if err != nil {
		return nil, err
	}
	if err := sys.fill(s, l.asked*float64(w.capacity)); err != nil {
		return nil, err
	}
	begin := 0.0
	for n := range l.warmUp() + l.jobs {
		one := &job{Job: s.Next(sys.now), late: n >= l.warmUp()}
		if err := sys.arrive(one); err != nil {
			return nil, err
		}
		if n == l.warmUp() {
			sys.area, begin = 0, sys.now
		}
	}
	return sys.result(begin, w.capacity), nil
}

func (sys *system) result(begin float64, capacity int) *steady {
	for _, one := range sys.queue {
		if one.late {
			sys.waits = append(sys.waits, sys.now-one.Arrived)
		}
	}
	slices.Sort(sys.waits)
	result := &steady{allocated: 100 * sys.area / (sys.now - begin) / float64(capacity), waiting: len(sys.queue)}
	for _, wait := range sys.waits {
		if wait > 0 {
			result.waited += 100 / float64(len(sys.waits))
		}
		result.meanWait += wait / float64(len(sys.waits))
	}
	result.longWait = sys.waits[(len(sys.waits)-1)*99/100]
	return result
}

// meanSteady returns the mean result of several seeds.
func (w *workload) meanSteady(e *entrant, l *load, seed int64, seeds int) (*steady, error) {
	mean := &steady{}
	for s := seed; s < seed+int64(seeds); s++ {
		one, err := w.departures(e, l, s)
		if err != nil {
			return nil, err
		}
		mean.allocated += one.allocated / float64(seeds)
		mean.meanWait += one.meanWait / float64(seeds)
		mean.longWait += one.longWait / float64(seeds)
		mean.waited += one.waited / float64(seeds)
		mean.waiting += one.waiting
	}
	mean.waiting /= seeds
	return mean, nil
}
