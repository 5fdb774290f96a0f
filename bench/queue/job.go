// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"falldio.github.io/gpu-controller/bench/queue/trace"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

// cardsPerNode is how many GPUs each node has.
const cardsPerNode = 8

// job is a job of the trace on its way through a system.
type job struct {
	trace.Job
	key string
	// measured is true if it was submitted in the weeks that count.
	measured bool
	// limit was declared; 0 if nothing was.
	limit    time.Duration
	estimate runtimes.Estimate
	// item is the job as the queue sees it.
	item queueing.Job
	turn float64
	gang *placement.Gang
	// request and members are those of the gang's only role.
	request *placement.Request
	members int

	pods []string // the names of its Pods
	// planned is how long it is expected to run, once it runs; it changes when it is exceeded.
	planned        time.Duration
	started, ended time.Time
	places         []placement.Member
	// expected is what was said when it was submitted, and after it had waited for long.
	expected, expectedLate forecast
	// promised is the first time at which a reservation said that it would start.
	promised time.Time
}

// forecast is a start estimate; the zero value is none.
type forecast struct {
	at time.Time
	// raw is the likely start before it was calibrated.
	raw                      time.Time
	earliest, likely, latest time.Time
}

// newJob returns a job that is about to be submitted. Jobs of up to 8 GPUs have one member,
// others have members of equal size on as few nodes as possible.
func newJob(from trace.Job, cluster *placement.Cluster) *job {
	members := (from.GPUs + cardsPerNode - 1) / cardsPerNode
	shape := placement.Shape{GPUs: (from.GPUs + members - 1) / members}
	j := &job{
		Job: from, key: fmt.Sprint(from.ID), members: members, request: cluster.Request(shape),
		gang: &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: members, Max: members}}},
	}
	for i := range members {
		j.pods = append(j.pods, fmt.Sprintf("%s/%d", j.key, i))
	}
	return j
}

// held returns how many GPUs the job holds.
func (j *job) held() int { return j.members * j.request.GPUs }

// bound returns what the scheduler takes for the job's longest duration when it starts; 0 if
// nothing is known.
func (j *job) bound() time.Duration { return j.estimate.Planned(0) }

// plannedEnd returns when a running job is expected to end.
func (j *job) plannedEnd(now time.Time) time.Time {
	if elapsed := now.Sub(j.started); j.planned <= elapsed {
		j.planned = j.estimate.Planned(elapsed)
	}
	if j.planned == 0 {
		return time.Time{}
	}
	return j.started.Add(j.planned)
}

func (j *job) wait() time.Duration { return j.started.Sub(j.Submitted) }
