// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/outlook"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// assumedRuntimes returns how long jobs are assumed to run of which nothing is known.
func assumedRuntimes(future *outlook.Input) map[string]time.Duration {
	jobs := map[string]time.Duration{}
	for i := range future.Running {
		if job := &future.Running[i]; job.Assumed > 0 {
			jobs[job.Key] = job.Assumed
		}
	}
	for i := range future.Waiting {
		if job := &future.Waiting[i]; job.Assumed > 0 {
			jobs[job.Key] = job.Assumed
		}
	}
	return jobs
}

// described returns an estimate as it is written. A booking says by when the gang starts at the latest, and knows
// better than the estimate which work has to end.
func (l *Line) described(place *Place, estimate outlook.Estimate, held map[string]int, assumed map[string]time.Duration) v1.StartEstimate {
	booking, booked := l.ahead.of(place.Key)
	if booked && booking.From.After(estimate.Likely) {
		estimate.Latest = booking.From
		if place.Awaits == gangs.AwaitsNodes { // the simulation may have it on nodes that refuse it
			estimate.Likely = booking.From
		}
	}
	if behind := l.runningBehind(place.Key, held); behind != "" {
		estimate.Behind = behind
		if assumed[behind] > 0 {
			estimate.Assumed = behind
		}
	}
	result := v1.StartEstimate{
		Earliest: shown(estimate.Earliest), Likely: shown(estimate.Likely), Latest: shown(estimate.Latest),
		Queue: place.queue, Position: int32(min(place.position+1, 1<<30)), //nolint:gosec // bounded
		Rough: estimate.Rough, Backfill: estimate.Passes, Reserved: booked,
	}
	namespace := place.Leader.Namespace
	if estimate.Behind != "" {
		result.Behind = l.jobName(estimate.Behind, namespace, held)
	}
	if estimate.Assumed != "" {
		result.AssumedRuntimeSeconds = int64(cmp.Or(assumed[estimate.Assumed], assumedRuntime).Seconds())
		if estimate.Assumed != likelyToCome { // nobody knows that
			result.AssumedFor = l.jobName(estimate.Assumed, namespace, held)
		}
	}
	return result
}

// mostBehind bounds how many bookings are followed that wait for one another.
const mostBehind = 100

// runningBehind returns the running job that the booking of a group waits for: if that is behind others that wait, what
// the last of these waits for. It is empty if there is none.
func (l *Line) runningBehind(group string, held map[string]int) string {
	for range mostBehind {
		booking, booked := l.ahead.of(group)
		if _, runs := held[booking.Behind]; runs || !booked {
			return booking.Behind
		}
		group = booking.Behind
	}
	return ""
}

func shown(at time.Time) metav1.Time { return metav1.NewTime(at.UTC().Round(shownStep)) }

// gpusOf formats how many GPUs something holds: "8 GPUs", "1 GPU", "0.5 GPUs".
func gpusOf(percent int) string {
	if percent == placement.Card {
		return "1 GPU"
	}
	return fmt.Sprintf("%g GPUs", float64(percent)/placement.Card)
}
