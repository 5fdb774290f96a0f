// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"fmt"
	"slices"
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
	case m == nil && !Concerns(pod):
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
	case now.Before(g.retryAt):
		return "its last scheduling attempt has just failed"
	case g.Alone:
		return ""
	case !g.complete():
		return g.gathering()
	}
	if g.elect(); g.leader != m {
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

// Rank is a Pod's place in the queue. Ranks don't change while the Pod is queued.
type Rank struct {
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
		rank.Since, rank.Group, rank.Index = m.group.Since, m.group.Key, m.index
	}
	return rank
}

// Compare orders ranks as the queue does. The members of a gang are next to each other.
func (a Rank) Compare(b Rank) int {
	return cmp.Or(
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
	if r.failing == 0 {
		return nil
	}
	first := firstRanks{limit: limit}
	for _, g := range r.groups {
		if r.isDue(g, now) {
			first.add(g)
		}
	}
	pods := make([]*corev1.Pod, 0, len(first.groups))
	for _, one := range first.groups {
		one.group.queuedAt = now
		pods = append(pods, one.group.leader.Pod())
	}
	return pods
}

// firstRanks keeps the groups that come first in the queue, in order, at most limit.
type firstRanks struct {
	limit  int
	groups []ranked
}

type ranked struct {
	rank  Rank
	group *Group
}

func (f *firstRanks) add(g *Group) {
	rank := g.rank()
	if len(f.groups) == f.limit {
		if rank.Compare(f.groups[f.limit-1].rank) > 0 {
			return
		}
		f.groups = f.groups[:f.limit-1]
	}
	at, _ := slices.BinarySearchFunc(f.groups, rank, func(one ranked, rank Rank) int { return one.rank.Compare(rank) })
	f.groups = slices.Insert(f.groups, at, ranked{rank, g})
}

func (r *Registry) isDue(g *Group, now time.Time) bool {
	if g.failedAt.IsZero() || g.plan != nil || now.Before(g.retryAt) {
		return false
	}
	if now.Sub(g.queuedAt) < r.timing.Again {
		return false // it is queued already
	}
	settled := r.wokenAt.Add(r.timing.Settle)
	woken := g.failedAt.Before(r.wokenAt) || g.failedAt.Before(settled) && !now.Before(settled)
	if !woken && now.Before(g.retryBy) {
		return false
	}
	g.elect()
	return g.leader != nil
}

// rank returns that of the gang's leader.
func (g *Group) rank() Rank {
	return Rank{Priority: priorityOf(g.leader.Pod()), Since: g.Since, Group: g.Key, Index: g.leader.index, UID: g.leader.UID}
}
