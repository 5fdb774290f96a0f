// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Group is a gang, or a Pod that is alone. Its exported fields don't change once the
// Registry was started.
type Group struct {
	// Key is the gang's name with its namespace, or the Pod's UID.
	Key string
	// Alone is true for a Pod that is in no gang.
	Alone bool
	// Since is when the member was created with which the group became known or, if that was
	// before the start, the oldest member. It orders groups of equal priority, and does not
	// change while members may be queued: the queue relies on that.
	Since time.Time

	// turn is when its turn comes; 0 without queues. See SetTurns.
	turn float64
	// entered is since when it is, or was last, in kube-scheduler's queue; zero without queues. See turnstile.
	entered time.Time
	members map[types.UID]*Member
	// merged and wrong cache the members' merged labels; see spec.
	merged *snapshot.GangLabels
	wrong  error
	// uneven is true if members have different minima.
	uneven bool
	// staying and waitingNow cache the result of count; counted is false after any change.
	staying, waitingNow int
	counted             bool
	// bound counts the members that have a node, own those that this process schedules.
	bound, own int
	// tallied is the state in which the group is counted.
	tallied state
	leader  *Member
	plan    *plan
	retry   retryState
	// refused are nodes that took no member although there was room, and refusals is how
	// often that happened in a row.
	refused  map[string]bool
	refusals int
	// aborts counts the plans that were given up since a barrier opened.
	aborts int
	// reconsidered is true if the PodGroup, or what a member needs, has changed since the
	// last attempt began.
	reconsidered bool
	// partialSince is since when some members have a node, but fewer than the minimum.
	partialSince time.Time
}

// retryState is when a group may be tried again, and its place in the order of retries.
type retryState struct {
	// failedAt is when the last attempt that found no place began.
	failedAt time.Time
	// at is when the next attempt may be made. queuedAt is when the group was queued
	// for one, by is when it is retried even if nothing has happened.
	at, queuedAt, by time.Time
	// took is how much of the last attempt counts for the budget, if it found no place, and
	// endedAt when it ended.
	took    time.Duration
	endedAt time.Time
	// awaits is what it needs, as the last attempt has found, and never is true if it would not fit even if nothing
	// else ran.
	awaits Awaited
	never  bool
	// hurried is true if it need not rest for the attempts of others. See Hurry.
	hurried bool
	// positions are those in the heaps of retries, counted from 1; 0 in those that it is
	// not in.
	positions [heaps]int32
	// round is that of retries in which it may be queued, if it is due, and takenIn the last one in which it was.
	round, takenIn uint64
	// comesFrom is its namespace if it is among the newcomers.
	comesFrom string
}

// plan is a set of seats that not all of its members have reached yet.
type plan struct {
	number  uint64
	members []*Member
	// missing is how many members have not come to the barrier.
	missing int
	// since is when the plan was made.
	since time.Time
}

// spec returns the members' labels, merged. They should agree; if the minima differ, the
// smallest one counts, as the last members of a gang whose others have ended can't wait
// for those.
func (g *Group) spec() (*snapshot.GangLabels, error) {
	if g.merged == nil && g.wrong == nil {
		g.merged, g.uneven = &snapshot.GangLabels{Name: g.Key, Min: 1}, false
		first := true
		for _, m := range g.members {
			g.merge(m, first)
			first = false
		}
	}
	return g.merged, g.wrong
}

// merge merges one more member's labels.
func (g *Group) merge(m *Member, first bool) {
	switch {
	case g.wrong != nil || g.Alone:
	case m.blocked != nil:
		g.wrong = m.blocked
	case first:
		first := *m.labels
		g.merged = &first
	case g.merged.Level != m.labels.Level || g.merged.Required != m.labels.Required:
		g.wrong = fmt.Errorf("Pod %s: its topology annotations differ from those of others of its gang %s", m.Pod().Name, g.Key)
	default:
		g.uneven = g.uneven || g.merged.Min != m.labels.Min
		g.merged.Min = min(g.merged.Min, m.labels.Min)
	}
}

// join adds a member.
func (g *Group) join(m *Member) {
	if g.merged != nil {
		g.merge(m, len(g.members) == 0)
	}
	g.members[m.UID] = m
	g.counted = false
	if m.bound() {
		g.bound++
	}
	if m.ours {
		g.own++
	}
}

// drop removes a member.
func (g *Group) drop(m *Member) {
	g.counted = false
	if g.uneven || g.wrong != nil || len(g.members) == 1 {
		g.merged, g.wrong = nil, nil
	}
	delete(g.members, m.UID)
	if m.bound() {
		g.bound--
	}
	if m.ours {
		g.own--
	}
}

// complete reports whether enough members exist. For a gang that runs already, it does
// not matter how many there are: the others may have ended.
func (g *Group) complete() bool {
	spec, err := g.spec()
	if err != nil {
		return !errors.Is(err, errGroupUnknown) // reported when the leader's turn comes
	}
	if len(g.members) < spec.Min && g.bound == 0 {
		return false // fast path for the usual case
	}
	staying, waiting := g.count()
	return staying > 0 || waiting >= spec.Min
}

// count returns how many members stay on a node or have a seat, and how many need a seat.
func (g *Group) count() (staying, waiting int) {
	if g.counted {
		return g.staying, g.waitingNow
	}
	for _, m := range g.members {
		switch m.standing() {
		case stays:
			staying++
		case waits:
			waiting++
		case absent:
		}
	}
	g.staying, g.waitingNow, g.counted = staying, waiting, true
	return staying, waiting
}

// oldest returns when the oldest member was created.
func (g *Group) oldest() time.Time {
	var oldest time.Time
	for _, m := range g.members {
		if created := m.Pod().CreationTimestamp.Time; oldest.IsZero() || created.Before(oldest) {
			oldest = created
		}
	}
	return oldest
}

// waitingMembers returns the members that need a seat, in order.
func (g *Group) waitingMembers() []*Member {
	var list []*Member
	for _, m := range g.members {
		if m.waiting() {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, compareMembers)
	return list
}

// elect picks the member that is queued for the gang.
func (g *Group) elect() {
	if g.leader != nil && g.members[g.leader.UID] == g.leader && g.leader.waiting() {
		return
	}
	g.leader = nil
	for _, m := range g.members {
		if m.waiting() && (g.leader == nil || compareMembers(m, g.leader) < 0) {
			g.leader = m
		}
	}
}
