// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"container/heap"
	"time"

	corev1 "k8s.io/api/core/v1"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Waiting is a group that waits for a place.
type Waiting struct {
	// Key is the group's, and Leader the Pod whose turn is the group's.
	Key    string
	Leader *corev1.Pod
	// Priority is the leader's; Since is when the group was created.
	Priority int32
	Since    time.Time
	// Shape is what the leader asks for. It must not be changed.
	Shape *placement.Shape
	// Percent is what the Pods without a place ask for, in percent of a GPU.
	Percent int
	// Tried is true if the group has been tried since it last had a place, and found none.
	Tried bool
	// Awaits is what it needs, as that attempt has found.
	Awaits Awaited
	// Never is true if that attempt has found that it would not fit even if nothing else ran, and neither a node has
	// changed since nor the group itself.
	Never bool
}

// Waiting returns the groups that have what it takes to start, except a place: enough Pods,
// none of them gated. The order is arbitrary.
func (r *Registry) Waiting() []Waiting {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []Waiting
	for g := range r.unbound {
		if g.plan != nil || !g.complete() {
			continue
		}
		if r.elect(g); g.leader == nil {
			continue
		}
		list = append(list, Waiting{
			Key: g.Key, Leader: g.leader.Pod(), Priority: priorityOf(g.leader.Pod()), Since: g.Since,
			Shape: &g.leader.Shape, Percent: g.waitingPercent(), Tried: !g.retry.failedAt.IsZero(),
			Awaits: g.retry.awaits, Never: r.neverFits(g),
		})
	}
	return list
}

// neverFits reports whether it is known that a group would not fit even if nothing else ran. After a change that is not
// known until an attempt has seen it.
func (r *Registry) neverFits(g *Group) bool {
	return g.retry.never && !g.reconsidered && !g.retry.failedAt.Before(r.retries.lanes[laneNever].wokenAt.Add(r.timing.Settle))
}

// waitingPercent returns what the members ask for that need a seat, in percent of a GPU.
func (g *Group) waitingPercent() (percent int) {
	for _, m := range g.members {
		if m.waiting() {
			percent += snapshot.GPUPercent(&m.Shape)
		}
	}
	return percent
}

// SetTurns sets when the turns of groups come: the smallest number goes first, whatever the
// priorities. Groups that are not in the map come last until the next call. With nil, the
// turns no longer count. Groups that have passed the turnstile already keep their places: what is
// reserved for others stays reserved.
func (r *Registry) SetTurns(turns map[string]float64) Actions {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.turnstile.inUse
	r.turnstile.inUse = turns != nil
	if !before && !r.turnstile.inUse {
		return Actions{}
	}
	changed := false
	for g := range r.unbound {
		turn, known := turns[g.Key]
		if !known {
			turn = r.turnstile.lastTurn()
		}
		changed = changed || g.turn != turn
		g.turn = turn
	}
	if changed {
		heap.Init(&r.retries.due)
		r.retries.newcomers.reorder()
	}
	if before == r.turnstile.inUse {
		return Actions{Due: true}
	}
	return r.queueAnew()
}

// queueAnew queues all groups after the use of the turnstile has begun or ended.
func (r *Registry) queueAnew() (actions Actions) {
	for _, g := range r.groups {
		if !r.turnstile.isInside(g) {
			g.entered = time.Time{}
		}
		r.setRetry(g)
		if g.retry.failedAt.IsZero() {
			actions = actions.and(r.activateLeader(g))
		}
	}
	return actions
}

// Hurry has groups tried again at once that wait for another attempt: after a rest for their own
// attempts only, not for those of all others.
func (r *Registry) Hurry(keys []string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		if g := r.groups[key]; g != nil && !g.retry.failedAt.IsZero() && g.plan == nil {
			g.retry.at = now
			if rested := g.retry.endedAt.Add(r.retries.laneOf(g).budget.restFor(g.retry.took)); rested.After(now) {
				g.retry.at = rested
			}
			g.retry.by, g.retry.queuedAt, g.retry.hurried = g.retry.at, time.Time{}, true
			r.setRetry(g)
		}
	}
}
