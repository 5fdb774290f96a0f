// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Pauses configures how long gangs pause after attempts that find no place.
type Pauses struct {
	// Factor is how many times longer a pause is than the last such attempts of all gangs
	// together. As each gang is tried once in that time, with 10 they take at most a tenth
	// of it, however many gangs wait and however much their attempts differ.
	Factor int
	// Shortest is the shortest pause.
	Shortest time.Duration
	// Longest is how much of an attempt counts at most: one that was interrupted for a
	// minute must not keep all gangs waiting for ten.
	Longest time.Duration
}

// budget is the time that attempts take which find no place.
type budget struct {
	Pauses
	// total is what the last attempts of all groups took together that found no place.
	total time.Duration
}

// rest returns how long a group is not tried after an attempt has failed. As it is the same for
// all groups, and computed when it may be over, no group rests longer than the latest attempts
// make necessary.
func (b *budget) rest() time.Duration { return b.restFor(b.total) }

// restFor returns how long to rest after attempts that took so long.
func (b *budget) restFor(took time.Duration) time.Duration {
	return max(time.Duration(b.Factor)*took, b.Shortest)
}

// count counts what the last attempt of a group took; 0 if it was not in vain.
func (b *budget) count(g *Group, took time.Duration) {
	took = min(max(took, 0), b.Longest)
	b.total += took - g.retry.took
	g.retry.took = took
}

// Failure is an attempt that found no place for a gang.
type Failure struct {
	Began, Ended time.Time
	// RetryBy is when the gang is retried if nothing happens; if it is zero, that is after Timing.Again.
	RetryBy time.Time
	// Awaits is what it needs.
	Awaits Awaited
	// Never is true if the gang would not fit even if nothing else ran: it waits for nodes.
	Never bool
}

// Awaited is what a gang needs to start that has found no place.
type Awaited uint8

const (
	// AwaitsRoom is for what others have, until they end.
	AwaitsRoom Awaited = iota
	// AwaitsNodes is for nodes of which there may be none: kube-scheduler's filters refuse those with room, or it
	// would not have fitted even if nothing else had run, and nodes have changed since.
	AwaitsNodes
	// AwaitsQueue is for its queue, which does not let it start.
	AwaitsQueue
	// AwaitsOther is for something else that has to change, such as an object that does not exist, a claim that is not
	// ready, or the gang itself. Nobody knows when that will be.
	AwaitsOther
)

// FailAttempt records that an attempt found no place for a gang, which rests as Timing.Pauses says.
func (r *Registry) FailAttempt(g *Group, failure Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if failure.RetryBy.IsZero() {
		failure.RetryBy = failure.Began.Add(r.timing.Again)
	}
	r.fail(g, failure.Began, failure.Ended, failure.RetryBy)
	g.retry.awaits = failure.Awaits
	if failure.Never && !g.retry.failedAt.IsZero() && !g.reconsidered {
		r.retries.remove(g)
		r.retries.setNever(g, true)
		r.setRetry(g)
	}
	r.spend(g, failure.Began, failure.Ended)
}

// Prolong records that more was done, in some time, for a Pod whose gang has found no place:
// what follows FailAttempt, such as a search for Pods to preempt, counts as well.
func (r *Registry) Prolong(uid types.UID, began, ended time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[uid]; m != nil {
		r.spend(m.group, began, ended)
	}
}

// spend counts more time for a group's last attempt, after which it rests.
func (r *Registry) spend(g *Group, began, ended time.Time) {
	if g.retry.failedAt.IsZero() {
		return // it has found a place, or is gone
	}
	r.retries.laneOf(g).budget.count(g, g.retry.took+ended.Sub(began))
	if ended.After(g.retry.endedAt) {
		g.retry.endedAt = ended
		r.setRetry(g)
	}
}
