// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Gate returns why a Pod may not enter the scheduling queue, or "". A Pod that was not
// observed yet is queued once it is.
func (r *Registry) Gate(pod *corev1.Pod, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[pod.UID]
	switch {
	case m == nil && !r.concernsAsItIs(pod) && r.claimedBy(pod) == 0:
		return ""
	case m == nil || !r.started:
		return "it is new, or the scheduler has just started"
	case m.seat != nil:
		return ""
	}
	g := m.group
	switch {
	case g.plan != nil:
		return "other Pods of its gang are being placed first"
	case now.Before(g.retryAt) || now.Before(g.restEnd(r.budget.rest())):
		return "its last scheduling attempt has just failed"
	case g.Alone:
		return ""
	case !g.complete():
		return g.gathering()
	}
	if r.elect(g); g.leader != m {
		return "another Pod of its gang is being scheduled for all of them"
	}
	return ""
}

func (g *Group) gathering() string {
	labels, err := g.spec()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("its gang %s has %d of the %d Pods that start together", g.Key, len(g.members), labels.Min)
}

// Rank is a Pod's place in the queue. Ranks don't change while the Pod is queued, unless its
// PodGroup does, and except among the members of a gang whose plan is replaced by another
// while some are queued: the worst that this can do is that they are refused and planned
// once more.
//
// With queues, the group's turn counts first, which changes from time to time: see SetTurns.
type Rank struct {
	Turn     float64
	Priority int32
	Since    time.Time
	Group    string
	Index    int
	UID      types.UID
}

// RankOf returns the place of a Pod in the queue; queued is when it entered the queue,
// which counts for Pods that are not in the registry.
func (r *Registry) RankOf(pod *corev1.Pod, queued time.Time) Rank {
	rank := Rank{Priority: priorityOf(pod), Since: queued, UID: pod.UID}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.members[pod.UID]; m != nil {
		rank.Turn, rank.Since, rank.Group, rank.Index = m.group.turn, m.group.Since, m.group.Key, m.index
		if m.seat != nil {
			rank.Index = m.seat.order
		}
	}
	return rank
}

// Compare orders ranks as the queue does. The members of a gang are next to each other.
func (a Rank) Compare(b Rank) int {
	return cmp.Or(
		cmp.Compare(a.Turn, b.Turn),
		-cmp.Compare(a.Priority, b.Priority),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Index, b.Index),
		cmp.Compare(a.UID, b.UID),
	)
}

// Wake records that there may be more room than before. Attempts that begin right now may
// not see it: the scheduler's own cache is updated independently.
func (r *Registry) Wake(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wokenAt = now
}

// Due returns the Pods to requeue now, in order of rank, at most limit: one for each gang
// that found no place, if there may be more room since, or some time has passed.
func (r *Registry) Due(now time.Time, limit int) []*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retries.advance(now, r.wokenAt, r.budget.rest())
	var pods []*corev1.Pod
	for g := r.retries.due.first(); g != nil && len(pods) < limit; g = r.retries.due.first() {
		if r.elect(g) {
			r.retries.advance(now, r.wokenAt, r.budget.rest()) // another leader may have another rank
			continue
		}
		g.queuedAt = now
		r.setRetry(g)
		pods = append(pods, g.leader.Pod())
	}
	return pods
}

// setRetry updates whether, and when, a group is retried.
func (r *Registry) setRetry(g *Group) {
	if g.failedAt.IsZero() || g.plan != nil || g.leader == nil {
		r.retries.remove(g)
		return
	}
	r.retries.put(g)
}

// elect makes sure that a group has a leader if a member waits. It reports whether the
// leader has changed.
func (r *Registry) elect(g *Group) (changed bool) {
	before := g.leader
	if g.elect(); g.leader == before {
		return false
	}
	r.setRetry(g)
	return true
}

// rank returns that of the gang's leader.
func (g *Group) rank() Rank {
	return Rank{Turn: g.turn, Priority: priorityOf(g.leader.Pod()), Since: g.Since, Group: g.Key, Index: g.leader.index, UID: g.leader.UID}
}
