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
	case m == nil:
		return r.gateUnknown(pod)
	case !r.started:
		return justBegun
	case m.seat != nil:
		return ""
	}
	return r.gate(m, now)
}

// gateUnknown is Gate for a Pod that is no member.
func (r *Registry) gateUnknown(pod *corev1.Pod) string {
	claimed, known := r.claimedBy(pod)
	switch {
	case !known:
		return "what its resource claims ask for is being found out"
	case claimed > 0 || r.concernsAsItIs(pod):
		return justBegun
	default:
		return ""
	}
}

// justBegun is why a Pod is not queued that is not known well enough.
const justBegun = "it is new, or the scheduler has just started"

// gate is Gate for a member without a seat.
func (r *Registry) gate(m *Member, now time.Time) string {
	g := m.group
	switch {
	case g.plan != nil:
		return "other Pods of its gang are being placed first"
	case g.retry.queuedAt.IsZero() && (now.Before(g.retry.at) || now.Before(g.restEnd(r.retries.laneOf(g).budget.rest()))):
		return "its last scheduling attempt has just failed"
	case !g.complete():
		return g.gathering()
	}
	if r.elect(g); g.leader != m {
		return "another Pod of its gang is being scheduled for all of them"
	}
	if r.turnstile.holds(g) {
		return "Pods whose turns come first are being scheduled"
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
// PodGroup does or the first GPUQueue comes or the last one goes, and except among the members
// of a gang whose plan is replaced by another while some are queued: the worst that this can do
// is that they are refused and planned once more.
//
// With queues, what counts first is since when it is in kube-scheduler's queue: see turnstile.
type Rank struct {
	Entered  time.Time
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
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.members[pod.UID]
	if m == nil {
		rank := r.turnstile.rankOfOthers(priorityOf(pod), queued)
		rank.UID = pod.UID
		return rank
	}
	rank := Rank{Entered: r.turnstile.enteredAt(m.group, queued), Priority: priorityOf(pod), Since: m.group.Since, Group: m.group.Key, Index: m.index, UID: pod.UID}
	if m.seat != nil {
		rank.Index = m.seat.order
	}
	return rank
}

// RankOfOthers returns the place of what is not in the Registry: by its priority, and when it entered
// the queue.
func (r *Registry) RankOfOthers(priority int32, queued time.Time) Rank {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.turnstile.rankOfOthers(priority, queued)
}

// Compare orders ranks as the queue does. The members of a gang are next to each other.
func (a Rank) Compare(b Rank) int {
	return cmp.Or(
		a.Entered.Compare(b.Entered),
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
	r.retries.lanes[laneUsual].wokenAt = now
}

// WakeAll records that nodes have changed: there may be more room, also for what would not have fitted
// even if nothing else had run.
func (r *Registry) WakeAll(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.retries.lanes {
		r.retries.lanes[i].wokenAt = now
	}
}

// Due returns the Pods to queue now, in order of rank, at most limit: one for each gang
// that found no place, if there may be more room since, or some time has passed; with queues,
// also one for each that was not tried yet, and only as many as the turnstile lets in.
func (r *Registry) Due(now time.Time, limit int) []*corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.started {
		return nil
	}
	r.retries.advance(now)
	room := r.turnstile.room(now)
	var pods []*corev1.Pod
	for g := r.retries.next(room > 0); g != nil && len(pods) < limit; g = r.retries.next(len(pods) < room) {
		if r.elect(g) {
			r.retries.advance(now) // another leader may have another rank
			continue
		}
		if r.turnstile.inUse && !g.complete() {
			r.retries.remove(g) // until a member comes
			continue
		}
		r.retries.take(g)
		r.turnstile.pass(g, now)
		r.setRetry(g)
		pods = append(pods, g.leader.Pod())
	}
	r.retries.endRound()
	return pods
}

// setRetry updates whether, and when, a group is tried again, or for the first time if the
// turnstile holds it.
func (r *Registry) setRetry(g *Group) {
	switch {
	case g.plan != nil || g.leader == nil:
		r.retries.remove(g)
	case !g.retry.failedAt.IsZero():
		r.retries.put(g)
	case r.turnstile.holds(g) && g.complete():
		r.retries.putNew(g)
	default:
		r.retries.remove(g)
	}
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
