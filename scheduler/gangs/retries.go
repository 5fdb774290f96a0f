// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"container/heap"
	"time"
)

// retries are the groups that wait for another attempt: those that found no place, have
// no plan and have a member that waits; with queues, also those that were not tried yet. They are
// indexed so that finding those that are due costs nothing for all the others, however many there are.
//
// A group goes from pausing to resting when its own pause is over, from there to idle when
// the rest is over that the budget imposes on all of its lane, from idle to due when something
// wakes it, and back to pausing when it is queued. One that is hurried does not rest, and one that
// was not tried yet is a newcomer, or due, until it is queued.
type retries struct {
	again, settle time.Duration
	// pausing is ordered by the end of the pause.
	pausing groupHeap
	// lanes have those that rest. Those that are idle are there as well, and in idleByDeadline, ordered by
	// when they are retried even if nothing happens.
	lanes          [lanes]lane
	idleByDeadline groupHeap
	// due is in the order of the turns, but those that are hurried are first, and the others come by
	// rounds: within one, each group is queued at most once. So if there is no time for all that are due,
	// those with the first turns don't take all of it. When none is due, a round ends.
	due   groupHeap
	round uint64
	// newcomers take turns with those that are due: neither can keep the others waiting. newcomerNext is
	// true if it is a newcomer's turn.
	newcomers    newcomers
	newcomerNext bool
}

func newRetries(timing Timing) *retries {
	r := &retries{again: timing.Again, settle: timing.Settle, round: 1, lanes: newLanes(timing.Pauses), newcomers: newcomers{namespaces: map[string]*namespace{}}}
	r.pausing = groupHeap{number: 0, before: func(a, b *Group) bool { return a.pauseEnd(r.again).Before(b.pauseEnd(r.again)) }}
	r.idleByDeadline = groupHeap{number: 1, before: func(a, b *Group) bool { return a.retry.by.Before(b.retry.by) }}
	r.due = groupHeap{number: 2, before: func(a, b *Group) bool { return a.compareDue(b) < 0 }}
	return r
}

// heaps is how many heaps there are: three of retries, two of each lane, and that of the newcomers of a namespace.
const heaps = 3 + 2*lanes + 1

// laneOf returns the lane of a group.
func (r *retries) laneOf(g *Group) *lane {
	if g.retry.never {
		return &r.lanes[laneNever]
	}
	return &r.lanes[laneUsual]
}

// setNever puts a group into another lane, while it is in no heap.
func (r *retries) setNever(g *Group, never bool) {
	r.laneOf(g).budget.count(g, 0)
	g.retry.never = never
}

// pauseEnd is when another attempt may be made. A group that is queued for one is not
// queued again before long.
func (g *Group) pauseEnd(again time.Duration) time.Time {
	if queued := g.retry.queuedAt.Add(again); !g.retry.queuedAt.IsZero() && queued.After(g.retry.at) {
		return queued
	}
	return g.retry.at
}

// restEnd is when a group has rested for so long after an attempt that counts for the budget.
func (g *Group) restEnd(rest time.Duration) time.Time {
	if g.retry.endedAt.IsZero() {
		return time.Time{}
	}
	return g.retry.endedAt.Add(rest)
}

// remove removes a group.
func (r *retries) remove(g *Group) {
	for _, h := range []*groupHeap{&r.pausing, &r.idleByDeadline, &r.due, &r.laneOf(g).resting, &r.laneOf(g).idleByFailure} {
		h.remove(g)
	}
	r.newcomers.remove(g)
}

// put adds a group. If it is there already, it may have changed.
func (r *retries) put(g *Group) {
	r.remove(g)
	heap.Push(&r.pausing, g)
}

// putNew adds a group that was not tried yet. If it is there already, it may have changed.
func (r *retries) putNew(g *Group) {
	r.remove(g)
	if g.isNewcomer() {
		r.newcomers.add(g)
		return
	}
	r.putDue(g)
}

func (r *retries) putDue(g *Group) {
	g.retry.round = r.round
	if g.retry.takenIn == r.round {
		g.retry.round++
	}
	heap.Push(&r.due, g)
}

// next returns the group to be queued next; nil if there is none. Without room, only those that are
// hurried are.
func (r *retries) next(room bool) *Group {
	due, newcomer := r.due.first(), r.newcomers.first()
	switch {
	case due != nil && due.retry.hurried:
		return due
	case !room:
		return nil
	case due == nil, newcomer != nil && r.newcomerNext:
		return newcomer
	default:
		return due
	}
}

// take is called when a group is about to be queued, before it is put anywhere else.
func (r *retries) take(g *Group) {
	if r.newcomerNext = g.retry.positions[r.due.number] > 0; !r.newcomerNext {
		r.newcomers.take(g)
		return
	}
	r.round = max(r.round, g.retry.round)
	g.retry.takenIn = r.round
}

// endRound lets all groups be queued again, if none is due.
func (r *retries) endRound() {
	if r.due.Len() == 0 {
		r.round++
	}
}

// compareDue compares two groups that are due.
func (g *Group) compareDue(other *Group) int {
	return cmp.Or(trueFirst(g.retry.hurried, other.retry.hurried), cmp.Compare(g.retry.round, other.retry.round), g.rank().Compare(other.rank()))
}

// trueFirst compares two booleans: true comes first.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// advance moves on the groups whose time has come.
func (r *retries) advance(now time.Time) {
	for g := r.pausing.first(); g != nil && !now.Before(g.pauseEnd(r.again)); g = r.pausing.first() {
		r.pausing.remove(g)
		if g.retry.hurried {
			r.idle(g)
		} else {
			heap.Push(&r.laneOf(g).resting, g)
		}
	}
	for i := range r.lanes {
		r.lanes[i].advance(r, now)
	}
	for g := r.idleByDeadline.first(); g != nil && !now.Before(g.retry.by); g = r.idleByDeadline.first() {
		r.wake(g)
	}
}

func (r *retries) idle(g *Group) {
	heap.Push(&r.laneOf(g).idleByFailure, g)
	heap.Push(&r.idleByDeadline, g)
}

func (r *retries) wake(g *Group) {
	r.laneOf(g).idleByFailure.remove(g)
	r.idleByDeadline.remove(g)
	r.putDue(g)
}

// groupHeap is a heap of groups from which any can be removed.
type groupHeap struct {
	groups []*Group
	// number is the heap's index in Group.retry.positions.
	number int
	before func(a, b *Group) bool
}

// first returns the first group; nil if there is none.
func (h *groupHeap) first() *Group {
	if len(h.groups) == 0 {
		return nil
	}
	return h.groups[0]
}

// remove removes a group if it is there. The group itself is not compared: it may have
// changed.
func (h *groupHeap) remove(g *Group) {
	if position := g.retry.positions[h.number]; position > 0 {
		heap.Remove(h, int(position)-1)
	}
}

// Len implements heap.Interface.
func (h *groupHeap) Len() int { return len(h.groups) }

// Less implements heap.Interface.
func (h *groupHeap) Less(i, j int) bool { return h.before(h.groups[i], h.groups[j]) }

// Swap implements heap.Interface.
func (h *groupHeap) Swap(i, j int) {
	h.groups[i], h.groups[j] = h.groups[j], h.groups[i]
	h.setPosition(i)
	h.setPosition(j)
}

// Push implements heap.Interface.
func (h *groupHeap) Push(pushed any) {
	h.groups = append(h.groups, pushed.(*Group)) //nolint:forcetypeassert // only groups are pushed
	h.setPosition(len(h.groups) - 1)
}

// Pop implements heap.Interface.
func (h *groupHeap) Pop() any {
	last := len(h.groups) - 1
	g := h.groups[last]
	h.groups[last] = nil
	h.groups = h.groups[:last]
	g.retry.positions[h.number] = 0
	return g
}

func (h *groupHeap) setPosition(i int) {
	h.groups[i].retry.positions[h.number] = int32(i) + 1 //nolint:gosec // far fewer groups
}
