// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

// line is the waiting jobs in their order.
type line struct {
	jobs []*job
	// gpus is what they need in all; classes counts those that are alike.
	gpus    int
	classes map[class]int
}

// class is what alike jobs have in common.
type class struct {
	request *placement.Request
	members int
}

// before orders by turn, as queueing.Options.Order does for jobs of equal priority.
func before(a, b *job) int {
	return cmp.Or(cmp.Compare(a.turn, b.turn), a.Submitted.Compare(b.Submitted), cmp.Compare(a.ID, b.ID))
}

// insert adds a job at its place and returns how many are before it.
func (l *line) insert(j *job) int {
	at, _ := slices.BinarySearchFunc(l.jobs, j, before)
	l.jobs = slices.Insert(l.jobs, at, j)
	l.gpus += j.held()
	l.classes[class{j.request, j.members}]++
	return at
}

func (l *line) remove(j *job) {
	at, found := slices.BinarySearchFunc(l.jobs, j, before)
	if found {
		l.jobs = slices.Delete(l.jobs, at, at+1)
		l.gpus -= j.held()
		if kind := (class{j.request, j.members}); l.classes[kind] > 1 {
			l.classes[kind]--
		} else {
			delete(l.classes, kind)
		}
	}
}

// reorder sorts all jobs again, by the product's order, with the present factors of the
// virtual clusters.
func (l *line) reorder(o queueing.Options, factors map[string]float64) {
	items := make([]queueing.Job, len(l.jobs))
	for i, j := range l.jobs {
		items[i] = j.item
	}
	sorted := make([]*job, 0, len(l.jobs))
	for _, ranked := range o.Order(items, factors) {
		j := l.jobs[ranked.Index]
		j.turn = ranked.Turn
		sorted = append(sorted, j)
	}
	l.jobs = sorted
	slices.SortFunc(l.jobs, before) // equal turns of several queues
}

// fits reports whether some waiting job would fit if there were no reservations. If none does,
// there is nothing to decide.
func (l *line) fits(cluster *placement.Cluster) bool {
	for kind := range l.classes {
		if cluster.Root().Room(kind.request) >= kind.members {
			return true
		}
	}
	return false
}
