// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"
)

// result is what one replay gave. Times are in hours.
type result struct {
	entrant   entrant
	nodes     int
	estimates string
	seeds     int
	all       waits
	sizes     []waits // in the order of sizes
	overDay   float64
	// slowdown is the mean bounded slowdown, worstTeam the largest mean of a virtual cluster,
	// worstTurnaround the largest ratio of turnaround and run time, each summed up, of one.
	slowdown, worstTeam, worstTurnaround float64
	// The rest are fractions of all GPUs.
	avoidable, deficit, allocated, allocatedBusy, occupied, fragmented float64
	later, earlier, reserved                                           float64
	forecast                                                           accuracy
	moved                                                              map[string]int
	wall                                                               time.Duration
}

// waits are the waiting times of some jobs.
type waits struct {
	jobs                         float64
	mean, p50, p95, p99, longest float64
	all                          []float64 // sorted
}

// size is a class of jobs.
type size struct {
	title    string
	from, to int // GPUs
}

// sizes are the classes of jobs that are reported.
var sizes = []size{{"1 GPU", 1, 1}, {"2 to 7", 2, 7}, {"8", 8, 8}, {"9 to 15", 9, 15}, {"16 or more", 16, 1 << 20}}

// Indices of sizes.
const (
	eight   = 2
	sixteen = 4
)

func waitsOf(hours []float64) waits {
	slices.Sort(hours)
	w := waits{jobs: float64(len(hours)), all: hours}
	if len(hours) == 0 {
		return w
	}
	for _, one := range hours {
		w.mean += one / float64(len(hours))
	}
	w.p50, w.p95, w.p99, w.longest = quantile(hours, .5), quantile(hours, .95), quantile(hours, .99), hours[len(hours)-1]
	return w
}

// quantile returns a quantile of sorted numbers.
func quantile(sorted []float64, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// shortest is the run time from which on slowdowns are counted: what runs a few seconds may
// wait a few minutes.
const shortest = 10 * time.Minute

// slowdown returns the bounded slowdown of a job.
func (j *job) slowdown() float64 {
	return max(1, float64(j.wait()+j.Duration)/float64(max(j.Duration, shortest)))
}

func (s *system) result() *result {
	m := &s.measures
	slices.SortFunc(m.jobs, func(a, b *job) int { return cmp.Compare(a.ID, b.ID) })
	r := &result{
		entrant: s.entrant, nodes: s.nodes, estimates: s.estimates, seeds: 1, moved: s.moved.reasons, forecast: s.forecasts.accuracy(),
		later: float64(s.moved.later), earlier: float64(s.moved.earlier), reserved: float64(s.moved.made),
	}
	r.addWaits(m.jobs)
	r.addTeams(m.jobs)
	gpus := m.seconds * float64(s.capacity())
	r.avoidable, r.allocated, r.occupied = m.avoidable/gpus, m.used/gpus, m.occupied/gpus
	r.deficit = m.owed / m.seconds
	r.allocatedBusy = m.usedBusy / max(m.busy*float64(s.capacity()), 1)
	r.fragmented = m.fragmented / max(m.free, 1)
	return r
}

// addWaits sums up the waiting times.
func (r *result) addWaits(jobs []*job) {
	var all []float64
	bySize := make([][]float64, len(sizes))
	for _, j := range jobs {
		hours := j.wait().Hours()
		all = append(all, hours)
		r.overDay += one(hours > 24)
		for i := range sizes {
			if j.GPUs >= sizes[i].from && j.GPUs <= sizes[i].to {
				bySize[i] = append(bySize[i], hours)
			}
		}
	}
	r.all = waitsOf(all)
	for i := range sizes {
		r.sizes = append(r.sizes, waitsOf(bySize[i]))
	}
}

// addTeams sums up slowdowns by virtual cluster.
func (r *result) addTeams(jobs []*job) {
	type sums struct{ jobs, slowdown, turnaround, run float64 }
	teams := map[string]*sums{}
	for _, j := range jobs {
		r.slowdown += j.slowdown() / float64(len(jobs))
		team := teams[j.Cluster]
		if team == nil {
			team = &sums{}
			teams[j.Cluster] = team
		}
		team.jobs++
		team.slowdown += j.slowdown()
		team.turnaround += (j.wait() + j.Duration).Hours()
		team.run += j.Duration.Hours()
	}
	for _, team := range teams {
		r.worstTeam = max(r.worstTeam, team.slowdown/team.jobs)
		r.worstTurnaround = max(r.worstTurnaround, team.turnaround/team.run)
	}
}
