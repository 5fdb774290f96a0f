// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"math"
	"time"
)

const (
	// maxInside is how many groups are inside at a time. It bounds how long the group whose turn is first
	// waits for those that were let in before. As others follow twenty times a second, it does not limit
	// the throughput.
	maxInside = 128
	// maxStay is after how long a group no longer counts whose attempt has not begun: other plugins
	// may keep its Pod out of the queue. It is longer than kube-scheduler takes for so many.
	maxStay = 10 * time.Second
	// highestUserPriority is the highest priority that PriorityClasses of users can have; those above it
	// are Kubernetes' own.
	highestUserPriority = 1_000_000_000
)

// turnstile is in use with queues, where turns decide which group is served first. Turns change all the
// time, and kube-scheduler's queue is a heap, from which an entry may never come out if the ranks of
// others in it change. So groups wait for their turns here, in an order that is computed again with each
// change, and only a few at a time are let into kube-scheduler's queue: there they are served
// in the order in which they came, like Pods that are not in the Registry. So no Pod waits
// for more than those that were there before it, however many others are tried again and again.
type turnstile struct {
	inUse bool
	// size is how many groups may be inside at a time.
	size int
	// inside are the groups that were let in and whose attempts have not begun, and last is when the last
	// one entered.
	inside map[*Group]struct{}
	last   time.Time
}

func newTurnstile() turnstile { return turnstile{size: maxInside, inside: map[*Group]struct{}{}} }

// lastTurn is the turn of groups that SetTurns does not know yet.
func (t *turnstile) lastTurn() float64 {
	if t.inUse {
		return math.Inf(1)
	}
	return 0
}

// holds reports whether a group has to wait for its turn.
func (t *turnstile) holds(g *Group) bool { return t.inUse && g.retry.queuedAt.IsZero() }

// room returns how many more groups may pass.
func (t *turnstile) room(now time.Time) int {
	if !t.inUse {
		return math.MaxInt
	}
	count := 0
	for g := range t.inside {
		if now.Sub(g.retry.queuedAt) < maxStay {
			count++
		}
	}
	return max(0, t.size-count)
}

// pass lets a group in.
func (t *turnstile) pass(g *Group, now time.Time) {
	g.retry.queuedAt = now
	if !t.inUse || t.isInside(g) {
		return // it keeps its place
	}
	if !now.After(t.last) {
		now = t.last.Add(time.Nanosecond) // those that pass together stay in their order
	}
	g.entered, t.last = now, now
	t.inside[g] = struct{}{}
}

func (t *turnstile) isInside(g *Group) bool {
	_, inside := t.inside[g]
	return inside
}

// leave is called when the attempt of a group begins, or none will.
func (t *turnstile) leave(g *Group) {
	delete(t.inside, g)
	if !t.inUse {
		g.entered = time.Time{}
	}
}

// enteredAt is since when a group is in kube-scheduler's queue, as its rank has it: if it did not come
// through the turnstile, since its Pod was queued.
func (t *turnstile) enteredAt(g *Group, queued time.Time) time.Time {
	if t.inUse && g.entered.IsZero() {
		return queued
	}
	return g.entered
}

// rankOfOthers returns the rank of what is not in the Registry.
func (t *turnstile) rankOfOthers(priority int32, queued time.Time) Rank {
	rank := Rank{Priority: priority, Since: queued}
	if t.inUse && priority <= highestUserPriority {
		rank.Entered = queued
	}
	return rank
}
