// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"math"
	"time"
)

// Job is what waits for GPUs: a task, or a Pod without one. All of its members start
// together.
type Job struct {
	// Key identifies the job; it decides between jobs that are equal otherwise.
	Key string
	// Queue is the name of the job's queue. Jobs without one are in the queue "".
	Queue string
	// Priority decides inside the queue; the highest goes first.
	Priority int32
	// Submitted is when the job began to wait.
	Submitted time.Time
	// GPUs is what all members need, in whole GPUs; shares of a GPU are fractions.
	GPUs float64
	// Runtime is how long it is going to run.
	Runtime Runtime
}

// Runtime is how long a job is going to run. Durations are positive; 0 is unknown.
type Runtime struct {
	// Limit was declared and is enforced: nothing runs longer.
	Limit time.Duration
	// Likely and Bound are what to plan with: the median, and a duration that few jobs
	// exceed.
	Likely, Bound time.Duration
	// Predicted is true if Likely and Bound come from the history of other jobs alone,
	// because nothing was declared.
	Predicted bool
}

// Longest returns the duration that few such jobs exceed: Bound or, if that is unknown,
// Limit. It is 0 if nothing is known.
func (r Runtime) Longest() time.Duration {
	switch {
	case r.Bound > 0 && r.Limit > 0:
		return min(r.Bound, r.Limit)
	case r.Bound > 0:
		return r.Bound
	default:
		return r.Limit
	}
}

// Typical returns the geometric mean of the median and the longest duration: run times spread
// over orders of magnitude, and it stands for both how long such jobs usually take and how
// long they may. It is 0 if nothing is known.
func (r Runtime) Typical() time.Duration {
	longest := r.Longest()
	if r.Likely <= 0 {
		return longest
	}
	return time.Duration(math.Sqrt(float64(min(r.Likely, longest)) * float64(longest)))
}

// Expected returns the median or, if that is unknown, the longest duration.
func (r Runtime) Expected() time.Duration {
	if r.Likely > 0 {
		return r.Likely
	}
	return r.Longest()
}
