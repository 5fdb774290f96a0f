// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"cmp"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// What the registry's indexes should say, found by looking at all groups.

// isDue reports whether a group is to be requeued.
func isDue(r *Registry, g *Group, now time.Time) bool {
	if g.plan != nil || r.turnstile.inUse && !g.complete() {
		return false
	}
	if g.retry.failedAt.IsZero() {
		return r.turnstile.holds(g) && r.started && leaderOf(g) != nil
	}
	if now.Before(g.retry.at) {
		return false
	}
	if now.Sub(g.retry.queuedAt) < r.timing.Again {
		return false // it is queued already
	}
	wokenAt := r.retries.laneOf(g).wokenAt
	settled := wokenAt.Add(r.timing.Settle)
	woken := g.retry.failedAt.Before(wokenAt) || g.retry.failedAt.Before(settled) && !now.Before(settled)
	return (woken || !now.Before(g.retry.by)) && leaderOf(g) != nil
}

// leaderOf returns the member that is, or should be elected, the leader.
func leaderOf(g *Group) *Member {
	if g.leader != nil && g.members[g.leader.UID] == g.leader && g.leader.waiting() {
		return g.leader
	}
	if waiting := g.waitingMembers(); len(waiting) > 0 {
		return waiting[0]
	}
	return nil
}

// scanForDue returns the names of the Pods that are to be requeued.
func scanForDue(r *Registry, now time.Time, limit int) []string {
	type one struct {
		hurried bool
		round   uint64
		tried   bool
		rank    Rank
	}
	var due []one
	for _, g := range r.groups {
		if !isDue(r, g, now) {
			continue
		}
		leader, round := leaderOf(g), r.retries.round
		switch {
		case g.retry.failedAt.IsZero() && !isExplained(leader.Pod()):
			round = 0 // of no importance
		case g.retry.positions[r.retries.due.number] > 0:
			round = g.retry.round
		case g.retry.takenIn == round:
			round++
		}
		due = append(due, one{g.retry.hurried, round, !g.retry.failedAt.IsZero() || isExplained(leader.Pod()), Rank{Turn: g.turn, Priority: priorityOf(leader.Pod()), Since: g.Since, Group: g.Key, Index: leader.index, UID: leader.UID}})
	}
	slices.SortFunc(due, func(a, b one) int {
		last := map[bool]int{false: 0, true: 1}
		return cmp.Or(last[b.hurried]-last[a.hurried], cmp.Compare(a.round, b.round), a.rank.Compare(b.rank))
	})
	room, names := r.turnstile.room(now), []string{}
	for newcomerNext := r.retries.newcomerNext; len(due) > 0 && len(names) < limit; {
		// The first one of each kind: those that were tried and those that were not.
		index := slices.IndexFunc(due, func(one one) bool { return one.tried != newcomerNext })
		if hurried := slices.IndexFunc(due, func(one one) bool { return one.hurried }); hurried >= 0 {
			index = hurried
		} else if len(names) >= room {
			break
		}
		index = max(index, 0)
		names = append(names, r.members[due[index].rank.UID].Pod().Name)
		newcomerNext = due[index].tried
		due = slices.Delete(due, index, index+1)
	}
	return names
}

// scanForCounts counts the gangs by state.
func scanForCounts(r *Registry) Counts {
	counts := Counts{}
	for _, g := range r.groups {
		own := slices.ContainsFunc(membersOf(g), func(m *Member) bool { return m.ours })
		g.counted = false
		switch {
		case g.Alone || !own:
		case g.plan != nil:
			counts.Planned++
		case g.bound > 0:
			counts.Running++
		case g.complete():
			counts.Waiting++
		default:
			counts.Gathering++
		}
	}
	return counts
}

func membersOf(g *Group) []*Member {
	var list []*Member
	for _, m := range g.members {
		list = append(list, m)
	}
	return list
}

// checkHeaps checks that the heaps are in order.
func (s *simulation) checkHeaps() {
	s.t.Helper()
	r := s.retries
	all := []*groupHeap{&r.pausing, &r.idleByDeadline, &r.due}
	for i := range r.lanes {
		all = append(all, &r.lanes[i].resting, &r.lanes[i].idleByFailure)
	}
	for _, of := range r.newcomers.namespaces {
		if of.Len() == 0 {
			s.t.Fatal("a namespace without newcomers is kept")
		}
		all = append(all, &of.groupHeap)
	}
	for _, h := range all {
		for i, g := range h.groups {
			if g.retry.positions[h.number] != int32(i)+1 {
				s.t.Fatalf("gang %s is at %d of heap %d, it has %d", g.Key, i+1, h.number, g.retry.positions[h.number])
			}
			if i > 0 && h.before(g, h.groups[(i-1)/2]) {
				s.t.Fatalf("gang %s comes after one of heap %d that it comes before", g.Key, h.number)
			}
		}
	}
}

// checkIndexes compares the registry's indexes with what a scan finds.
func (s *simulation) checkIndexes() {
	s.t.Helper()
	if s.dice.IntN(4) == 0 { // else the counts of several changes are updated at once
		if diff := gocmp.Diff(scanForCounts(s.Registry), s.Count()); diff != "" {
			s.t.Fatalf("gangs by state (-scan +counted):\n%s", diff)
		}
	}
	for _, g := range s.groups {
		if _, known := s.unbound[g]; known != (g.bound < len(g.members)) {
			s.t.Fatalf("of gang %s %d of %d Pods have a node, and it is among those that can wait: %t", g.Key, g.bound, len(g.members), known)
		}
		if _, known := s.mixed[g]; g.isMixed() && !known {
			s.t.Fatalf("of gang %s %d of %d Pods have a node, and it is not known to be incomplete", g.Key, g.bound, len(g.members))
		}
		if g.counted {
			staying, waiting := g.count()
			g.counted = false
			if a, b := g.count(); a != staying || b != waiting {
				s.t.Fatalf("gang %s has %d Pods that stay and %d that wait, it counts %d and %d", g.Key, a, b, staying, waiting)
			}
		}
	}
}
