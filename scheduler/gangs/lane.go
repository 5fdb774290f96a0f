// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import "time"

// lane is what groups that were tried in vain have in common: what wakes them, and the budget of their attempts. Those
// that would not fit even if nothing else ran have a lane of their own. They may be many, such as all tasks with a
// misspelled GPU model. What ends can't help them, and the others must not rest for their attempts.
type lane struct {
	budget budget
	// resting is ordered by when the last attempt ended, and idleByFailure by when it began.
	resting, idleByFailure groupHeap
	// wokenAt is when the lane was last woken.
	wokenAt time.Time
}

// The indices of the lanes.
const (
	laneUsual = iota
	laneNever
	lanes
)

// neverFactor is how many times longer than the others those rest that would not fit even if nothing else ran, by what
// their attempts take.
const neverFactor = 2

func newLanes(pauses Pauses) (all [lanes]lane) {
	for i := range all {
		all[i].budget.Pauses = pauses
		all[i].resting = groupHeap{number: 3 + i, before: func(a, b *Group) bool { return a.retry.endedAt.Before(b.retry.endedAt) }}
		all[i].idleByFailure = groupHeap{number: 3 + lanes + i, before: func(a, b *Group) bool { return a.retry.failedAt.Before(b.retry.failedAt) }}
	}
	all[laneNever].budget.Factor *= neverFactor
	return all
}

// advance moves on the groups whose rest is over, and those that were woken since their last attempt.
func (l *lane) advance(r *retries, now time.Time) {
	rest := l.budget.rest()
	for g := l.resting.first(); g != nil && !now.Before(g.restEnd(rest)); g = l.resting.first() {
		l.resting.remove(g)
		r.idle(g)
	}
	// Attempts that began before this may not have seen the room that there is.
	outdated := l.wokenAt
	if settled := l.wokenAt.Add(r.settle); !now.Before(settled) {
		outdated = settled
	}
	for g := l.idleByFailure.first(); g != nil && g.retry.failedAt.Before(outdated); g = l.idleByFailure.first() {
		r.wake(g)
	}
}
