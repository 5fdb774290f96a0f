// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"falldio.github.io/gpu-controller/bench/queue/trace"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// The weeks whose jobs are measured, from 0. The first fills the cluster, the last keeps it
// busy while the jobs of the week before wait.
const (
	firstWeek = 1
	lastWeek  = 7
)

// measures are what is measured of a system.
type measures struct {
	from, to time.Time
	// jobs are those that were submitted from one time to the other and have started.
	jobs    []*job
	started int
	// The rest are integrals over that time, in seconds.
	seconds float64
	// used and avoidable are GPU-seconds: held, and idle although as much was asked for.
	used, avoidable float64
	// busy is the time in which jobs waited, usedBusy what was held then.
	busy, usedBusy float64
	// fragmented are GPU-seconds free on nodes that are partly used, free all that were free.
	fragmented, free float64
	// occupied are GPU-seconds of nodes with something on them.
	occupied float64
	// owed is the share of the cluster that virtual clusters with waiting jobs are due at equal
	// weights and lack, summed up over them.
	owed float64
}

func newMeasures(t *trace.Trace) measures {
	last := t.Jobs[len(t.Jobs)-1].Submitted
	m := measures{from: t.Begin.Add(firstWeek * trace.Week), to: t.Begin.Add((lastWeek + 1) * trace.Week)}
	if last.Before(m.to) { // a short trace is measured as a whole
		m.from, m.to = t.Begin, last.Add(time.Second)
	}
	return m
}

// counts reports whether a job is measured.
func (m *measures) counts(j *trace.Job) bool {
	return !j.Submitted.Before(m.from) && j.Submitted.Before(m.to)
}

func (m *measures) start(j *job) {
	if j.measured {
		m.started++
		m.jobs = append(m.jobs, j)
	}
}

// pass integrates until a time.
func (m *measures) pass(s *system, until time.Time) {
	begin, end := s.now, until
	if begin.Before(m.from) {
		begin = m.from
	}
	if end.After(m.to) {
		end = m.to
	}
	seconds := end.Sub(begin).Seconds()
	if seconds <= 0 {
		return
	}
	idle := s.capacity() - s.used
	m.seconds += seconds
	m.used += seconds * float64(s.used)
	m.avoidable += seconds * float64(min(idle, s.line.gpus))
	if len(s.line.jobs) > 0 {
		m.busy += seconds
		m.usedBusy += seconds * float64(s.used)
	}
	m.free += seconds * float64(idle)
	untouched := 0
	s.cluster.Root().Idle(func(_ *placement.State, nodes int) { untouched += nodes * cardsPerNode })
	m.fragmented += seconds * float64(idle-untouched)
	m.occupied += seconds * float64(s.capacity()-untouched)
	m.deficit(s, seconds)
}

// deficit integrates what virtual clusters with waiting jobs are owed: an equal part of the
// GPUs for each that has anything to run, but no more than it has, without what it holds.
func (m *measures) deficit(s *system, seconds float64) {
	active := 0
	for _, one := range s.teams {
		if one.held+one.waiting > 0 {
			active++
		}
	}
	for _, one := range s.teams {
		if one.waiting == 0 {
			continue
		}
		due := min(1/float64(active), float64(one.held+one.waiting)/float64(s.capacity()))
		m.owed += seconds * max(0, due-float64(one.held)/float64(s.capacity()))
	}
}
