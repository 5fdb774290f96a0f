// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
)

// merged returns the result of several seeds: the waiting times of all jobs together, and the
// means of the rest.
func merged(results []*result) *result {
	m := *results[0]
	m.seeds, m.sizes, m.moved = len(results), nil, map[string]int{}
	all := make([]float64, 0, len(results)*len(results[0].all.all))
	bySize := make([][]float64, len(sizes))
	forecasts := make([]*accuracy, 0, len(results))
	for _, r := range results {
		all = append(all, r.all.all...)
		for i := range r.sizes {
			bySize[i] = append(bySize[i], r.sizes[i].all...)
		}
		for reason, count := range r.moved {
			m.moved[reason] += count
		}
		forecasts = append(forecasts, &r.forecast)
	}
	m.all = waitsOf(all)
	for i := range bySize {
		m.sizes = append(m.sizes, waitsOf(bySize[i]))
	}
	for _, field := range m.means() {
		*field(&m) = mean(results, field)
	}
	m.forecast = mergedAccuracy(forecasts)
	return &m
}

// means are the fields that are averaged.
func (*result) means() []func(*result) *float64 {
	return []func(*result) *float64{
		func(r *result) *float64 { return &r.overDay },
		func(r *result) *float64 { return &r.slowdown },
		func(r *result) *float64 { return &r.worstTeam },
		func(r *result) *float64 { return &r.worstTurnaround },
		func(r *result) *float64 { return &r.avoidable },
		func(r *result) *float64 { return &r.deficit },
		func(r *result) *float64 { return &r.allocated },
		func(r *result) *float64 { return &r.allocatedBusy },
		func(r *result) *float64 { return &r.occupied },
		func(r *result) *float64 { return &r.fragmented },
		func(r *result) *float64 { return &r.later },
		func(r *result) *float64 { return &r.earlier },
		func(r *result) *float64 { return &r.reserved },
	}
}

func mean(results []*result, field func(*result) *float64) float64 {
	sum := 0.0
	for _, r := range results {
		sum += *field(r)
	}
	return sum / float64(len(results))
}

// mergedAccuracy returns the means, weighted by the numbers of estimates.
func mergedAccuracy(list []*accuracy) accuracy {
	var m accuracy
	for _, a := range list {
		m.jobs += a.jobs
		m.longJobs += a.longJobs
		m.within += a.within * a.jobs
		m.late += a.late * a.jobs
		m.covered += a.covered * a.jobs
		m.medianError += a.medianError * a.jobs
		m.medianWait += a.medianWait * a.jobs
		m.longWithin += a.longWithin * a.longJobs
	}
	for _, field := range []*float64{&m.within, &m.late, &m.covered, &m.medianError, &m.medianWait} {
		*field /= max(m.jobs, 1)
	}
	m.longWithin /= max(m.longJobs, 1)
	return m
}

// reasonsOf returns the reasons for which reservations moved, the most frequent first.
func reasonsOf(moved map[string]int) []string {
	return slices.SortedFunc(maps.Keys(moved), func(a, b string) int { return moved[b] - moved[a] })
}
