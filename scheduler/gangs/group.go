// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// Group is a gang, or a Pod that is alone. Its exported fields never change.
type Group struct {
	// Key is the gang's name with its namespace, or the Pod's UID.
	Key string
	// Alone is true for a Pod that is in no gang.
	Alone bool
	// Since is when the oldest member was created that was there when the group
	// became known. It is the group's place among those of equal priority.
	Since time.Time

	members map[types.UID]*Member
	// merged and wrong cache what the members say; see spec.
	merged *snapshot.GangLabels
	wrong  error
	// uneven is true if members name different minima.
	uneven bool
	// staying and waitingNow cache what count counts; counted is false after any
	// change.
	staying, waitingNow int
	counted             bool
	// bound counts the members that have a node.
	bound  int
	leader *Member
	plan   *plan
	// failedAt is when the last attempt began that found no place, firstFailure
	// when the first one since the last success did.
	failedAt, firstFailure time.Time
	// retryAt is when the next attempt may be made. lookedAt is when the group was
	// queued for one, latest when it is tried again though nothing has happened.
	retryAt, lookedAt, latest time.Time
	// refused are nodes that took no member though there was room, and refusals
	// how often that happened in a row.
	refused  map[string]bool
	refusals int
	// aborts counts the plans that were given up since a barrier opened.
	aborts int
	// partial is since when fewer than the minimum have a node, but some.
	partial time.Time
}

// plan is a set of seats that has not been reached by all yet.
type plan struct {
	number  uint64
	members []*Member
	// missing is how many have not come to the barrier.
	missing int
}

// spec is what the gang's members say about it. They should agree; the smallest
// minimum counts, as the last members of a gang whose others have ended can't wait
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

// merge adds what one more member says.
func (g *Group) merge(m *Member, first bool) {
	switch {
	case g.wrong != nil || g.Alone:
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
}

// complete reports whether enough members exist. Those of a gang that runs already are
// not counted: the others may have ended.
func (g *Group) complete() bool {
	spec, err := g.spec()
	if err != nil {
		return true // the leader's turn tells what is wrong
	}
	if len(g.members) < spec.Min && g.bound == 0 {
		return false // the usual case, at no cost
	}
	staying, waiting := g.count()
	return staying > 0 || waiting >= spec.Min
}

// count returns how many members have a node, or a seat, and stay, and how many
// need one.
func (g *Group) count() (staying, waiting int) {
	if g.counted {
		return g.staying, g.waitingNow
	}
	for _, m := range g.members {
		switch {
		case m.stays() || m.seat != nil:
			staying++
		case m.waiting():
			waiting++
		}
	}
	g.staying, g.waitingNow, g.counted = staying, waiting, true
	return staying, waiting
}

// sit gives a member a seat, or takes it away.
func (g *Group) sit(m *Member, seat *Seat) {
	m.seat = seat
	g.counted = false
}

// waitingMembers are those that need a seat, in order.
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

// elect finds the member that is queued for the gang.
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
