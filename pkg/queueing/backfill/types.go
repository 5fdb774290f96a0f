// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Input is the present.
type Input struct {
	// Cluster is as it is now, with all Pods that run. It is changed during a call, but not
	// afterwards.
	Cluster *placement.Cluster
	Running []Running
	// Waiting are the jobs that get bookings, in their order.
	Waiting []Waiting
	Now     time.Time
}

// Running is a job that runs.
type Running struct {
	// Key identifies the job.
	Key string
	// Pods are the names of its Pods in the cluster. Unknown ones are ignored.
	Pods []string
	// Ends is when they are expected to end, all of them. Zero is unknown: nobody waits for
	// it. A time that has passed counts as an end that may come at any moment: it is taken
	// for MinimumRemaining from now.
	Ends time.Time
}

// MinimumRemaining is how long a Pod that runs is expected to run at least.
const MinimumRemaining = time.Second

// Waiting is a job that gets a booking.
type Waiting struct {
	Key string
	// Gang is what it needs. Places are booked for the least number of members.
	Gang *placement.Gang
	// Bound is how long it runs at most; 0 is unknown, and counts as for ever.
	Bound time.Duration
}

// Booking is which place a waiting job gets, and when.
type Booking struct {
	// Key is that of the job.
	Key string
	// From is when the place is expected to be free; it is not before Now, and equals it if
	// the job can start at once. Until is From plus the job's bound; zero is for ever.
	From, Until time.Time
	// Plan is the place. It is nil if the job does not fit even when all running jobs whose
	// end is known have ended; then nothing is booked, and all times are zero.
	Plan *placement.Plan
	// Leaving are the Pods on the plan's nodes that are expected to end before From.
	Leaving []Leaver
	// Behind is the key of the job whose end the booking waits for: a running one, or
	// one with an earlier booking. Empty if it can start at once.
	Behind string
}

// Leaver is a Pod that is expected to end.
type Leaver struct {
	Pod  string
	Job  string
	Ends time.Time
}

// StartsBy reports whether the booking's place is free now.
func (r *Booking) StartsBy(now time.Time) bool { return r.Plan != nil && !r.From.After(now) }

// begins and ends return the times of a booking as durations from now.
func (r *Booking) begins(now time.Time) time.Duration { return max(r.From.Sub(now), 0) }

func (r *Booking) ends(now time.Time) time.Duration {
	if r.Until.IsZero() {
		return never
	}
	return max(r.Until.Sub(now), 0)
}
