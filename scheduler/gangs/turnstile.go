// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"math"
	"time"
)

const (
	// maxPassed is how many groups are let into kube-scheduler's queue at a time. It bounds for how long
	// a group that comes first has to wait for others that came first before; with twenty times a second
	// in which others follow, it does not slow down anything.
	maxPassed = 128
	// highestUserPriority is the highest priority that PriorityClasses of users can have; those above it
	// are Kubernetes' own.
	highestUserPriority = 1_000_000_000
)

// turnstile is in use with queues, where turns decide which group is served first. Turns change all the
// time, and kube-scheduler's queue is a heap, from which an entry may never come out if the ranks of
// others in it change. So groups wait for their turns here, in an order that is made anew with each
// change, and only a few at a time pass into kube-scheduler's queue: there they are served
// in the order in which they came, like Pods that are not in the Registry. So no Pod waits
// for more than those that were there before it, however many others are tried again and again.
type turnstile struct {
	inUse bool
	// size is how many groups may have passed at a time.
	size int
	// passed are the groups that have passed and whose attempts have not begun, and last is when the last
	// one did.
	passed map[*Group]struct{}
	last   time.Time
}

func newTurnstile() turnstile { return turnstile{size: maxPassed, passed: map[*Group]struct{}{}} }

// lastTurn is the turn of groups that SetTurns does not know yet.
func (t *turnstile) lastTurn() float64 {
	if t.inUse {
		return math.Inf(1)
	}
	return 0
}

// holds reports whether a group has to wait for its turn.
func (t *turnstile) holds(g *Group) bool { return t.inUse && g.queuedAt.IsZero() }

// room returns how many more groups may pass. One whose attempt has not begun for so long no
// longer counts: it may have been held up elsewhere.
func (t *turnstile) room(now time.Time, forget time.Duration) int {
	count := 0
	for g := range t.passed {
		if now.Sub(g.queuedAt) < forget {
			count++
		}
	}
	return max(0, t.size-count)
}

// pass lets a group through.
func (t *turnstile) pass(g *Group, now time.Time) {
	g.queuedAt = now
	if !t.inUse {
		g.entered = time.Time{}
		return
	}
	if _, queued := t.passed[g]; queued {
		return // it keeps its place
	}
	if !now.After(t.last) {
		now = t.last.Add(time.Nanosecond) // those that pass together stay in their order
	}
	g.entered, t.last = now, now
	t.passed[g] = struct{}{}
}

// leave is called when the attempt of a group begins, or the group has gone.
func (t *turnstile) leave(g *Group) { delete(t.passed, g) }

// rankOfOthers returns the rank of what is not in the Registry.
func (t *turnstile) rankOfOthers(priority int32, queued time.Time) Rank {
	rank := Rank{Priority: priority, Since: queued}
	if t.inUse && priority <= highestUserPriority {
		rank.Entered = queued
	}
	return rank
}
