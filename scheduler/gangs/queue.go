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

// Gate returns why a Pod may not enter the scheduling queue, or "". A Pod that was
// not observed yet has to wait for that: it is queued then.
func (r *Registry) Gate(pod *corev1.Pod, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.members[pod.UID]
	switch {
	case m == nil && !Concerns(pod):
		return ""
	case m == nil || !r.started:
		return "it is new, or the scheduler is"
	case m.seat != nil:
		return ""
	}
	g := m.group
	switch {
	case g.plan != nil:
		return "the Pods of its gang that start first are being placed"
	case now.Before(g.retryAt):
		return "its last attempt to find a place has just failed"
	case g.Alone:
		return ""
	case !g.complete():
		return g.gathering()
	}
	if g.elect(); g.leader != m {
		return "another Pod of its gang looks for a place for all"
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

// RankOf returns the place of a Pod in the queue; queued is when it came there,
// which counts for Pods that are not the registry's.
func (r *Registry) RankOf(pod *corev1.Pod, queued time.Time) Rank {
	rank := Rank{Priority: priorityOf(pod), Since: queued, UID: pod.UID}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if m := r.members[pod.UID]; m != nil {
		rank.Since, rank.Group, rank.Index = m.group.Since, m.group.Key, m.index
	}
	return rank
}

// Compare orders ranks: who is first in the queue comes first. The members of a
// gang are beside each other.
func (a Rank) Compare(b Rank) int {
	return cmp.Or(
		-cmp.Compare(a.Priority, b.Priority),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Group, b.Group),
		cmp.Compare(a.Index, b.Index),
		cmp.Compare(a.UID, b.UID),
	)
}

// Wake tells that there may be more room than before. Attempts that begin right now
// may not see it: the scheduler's own cache hears of it by another way.
func (r *Registry) Wake(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wokenAt = now
}

// Due returns the Pods that are to be queued again by now, at most so many, the
// first ones by rank: one for each gang that found no place, if there may be more
// room since, or some time has passed.
func (r *Registry) Due(now time.Time, most int) []*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing == 0 {
		return nil
	}
	first := firstRanks{most: most}
	for _, g := range r.groups {
		if r.isDue(g, now) {
			first.add(g)
		}
	}
	pods := make([]*corev1.Pod, 0, len(first.groups))
	for _, one := range first.groups {
		one.group.lookedAt = now
		pods = append(pods, one.group.leader.Pod())
	}
	return pods
}

// firstRanks keeps the groups that come first in the queue, in order, at most so
// many.
type firstRanks struct {
	most   int
	groups []ranked
}

type ranked struct {
	rank  Rank
	group *Group
}

func (f *firstRanks) add(g *Group) {
	rank := g.rank()
	if len(f.groups) == f.most {
		if rank.Compare(f.groups[f.most-1].rank) > 0 {
			return
		}
		f.groups = f.groups[:f.most-1]
	}
	at, _ := slices.BinarySearchFunc(f.groups, rank, func(one ranked, rank Rank) int { return one.rank.Compare(rank) })
	f.groups = slices.Insert(f.groups, at, ranked{rank, g})
}

func (r *Registry) isDue(g *Group, now time.Time) bool {
	if g.failedAt.IsZero() || g.plan != nil || now.Before(g.retryAt) {
		return false
	}
	if now.Sub(g.lookedAt) < r.timing.Again {
		return false // is queued and will get an answer
	}
	settled := r.wokenAt.Add(r.timing.Settle)
	woken := g.failedAt.Before(r.wokenAt) || g.failedAt.Before(settled) && !now.Before(settled)
	if !woken && now.Before(g.latest) {
		return false
	}
	g.elect()
	return g.leader != nil
}

// rank is that of the gang's leader.
func (g *Group) rank() Rank {
	return Rank{Priority: priorityOf(g.leader.Pod()), Since: g.Since, Group: g.Key, Index: g.leader.index, UID: g.leader.UID}
}
