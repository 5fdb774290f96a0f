// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// job is a Job that waits or runs.
type job struct {
	*dataset.Job
	request *placement.Request
	// early is true for jobs that run when the replay begins.
	early bool
	// late is true for jobs that arrive after the warm-up.
	late bool
}

// end is when a job ends, and what it holds until then.
type end struct {
	at     float64
	job    *job
	record record
}

// ends implements heap.Interface, ordered by time.
type ends []end

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].at < e[j].at }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(one any)      { *e = append(*e, one.(end)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	one := (*e)[last]
	*e = (*e)[:last]
	return one
}
