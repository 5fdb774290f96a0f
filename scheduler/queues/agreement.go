// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
	"falldio.github.io/gpu-controller/scheduler/filters"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// refusing are nodes that are not booked for a gang for a while.
type refusing struct {
	nodes []string
	until time.Time
}

// agreed are places that the filters have accepted, and are not asked about for a while.
type agreed struct {
	members []placement.Member
	until   time.Time
}

func (a *ahead) refusedTo(group string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refusing[group].nodes
}

// hasAgreed reports whether the filters have accepted the places of a booking a short time ago.
func (a *ahead) hasAgreed(r *backfill.Booking, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.agreed[r.Key]
	return now.Before(known.until) && slices.EqualFunc(known.members, r.Plan.Members, samePlace)
}

// heard remembers what the filters said of a booking, and which nodes refused members.
func (a *ahead) heard(r *backfill.Booking, nodes []string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.agreed == nil {
		a.agreed, a.refusing = map[string]agreed{}, map[string]refusing{}
	}
	until := now.Add(noStartPeriod)
	if len(nodes) == 0 {
		a.agreed[r.Key] = agreed{r.Plan.Members, until}
	} else {
		a.refusing[r.Key] = refusing{gangs.Union(a.refusing[r.Key].nodes, nodes), until}
	}
}

// askAhead asks the filters about the places of bookings that they were not asked about a short time ago, for as long
// as one search may take. A gang that no node would take gets none. open are those that must not stand as they are:
// again is true if some of them may get other places, as the nodes that refused them are left out from now on. For the
// others there was no time.
func (l *Line) askAhead(head *head, bookings, before []backfill.Booking, now time.Time) (again bool, open map[string]bool) {
	open = map[string]bool{}
	deadline := l.Clock.Now().Add(filters.SearchLimit)
	for i := range bookings {
		r := &bookings[i]
		if r.Plan == nil || l.ahead.hasAgreed(r, now) {
			continue
		}
		request, late := head.requests[r.Key], l.Clock.Now().After(deadline)
		var refused *filters.Refusals
		var nodes []string
		if !late {
			refused, nodes, late = l.refusalsOf(r, request)
		}
		if late {
			open[r.Key] = !slices.ContainsFunc(before, func(was backfill.Booking) bool { return was.Key == r.Key && samePlaces(&was, r) })
			continue
		}
		if len(nodes) > 0 && refused.AtAll() != nil {
			*r = backfill.Booking{Key: r.Key}
			continue
		}
		l.ahead.heard(r, nodes, now)
		if len(nodes) > 0 {
			head.exclude(r.Key, nodes)
			again, open[r.Key] = true, true
		}
	}
	return again, open
}

// refusalsOf asks the filters whether a gang could start where places are booked for it, when those have left that it
// waits for. It returns what they refused, and the nodes of the members that can't: none if all can. Late is true if
// there was no time to ask about all of them.
func (l *Line) refusalsOf(r *backfill.Booking, request *gangs.Request) (refused *filters.Refusals, nodes []string, late bool) {
	from := l.Filters.BasisUntil(l.Clock.Now().Add(filters.UsualSearch)) // in another gang's attempt
	check := l.Filters.CheckerOf(request, from)
	if check == nil {
		return nil, nil, false
	}
	arriving := make(map[types.UID]bool, len(from.Arriving))
	for _, one := range from.Arriving {
		arriving[one.Pod.UID] = true
	}
	l.Mirror.With(func(*placement.Cluster) {
		holders := l.Mirror.Holders()
		for _, leaving := range r.Leaving {
			if holder, held := holders(leaving.Pod); held && !arriving[holder.Pod.UID] {
				check.RemoveHolder(holder)
			}
		}
	})
	left := slices.Clone(r.Plan.Members)
	for before := len(left) + 1; len(left) > 0 && len(left) < before; { // members may have to follow others
		before = len(left)
		left = slices.DeleteFunc(left, func(m placement.Member) bool { return check.Place(m.Role, m.Node) == placement.Accepted })
	}
	if refused = check.Outcome(); refused.RanOutOfTime() {
		return nil, nil, true
	}
	for i := range left {
		nodes = append(nodes, left[i].Node)
	}
	return refused, nodes, false
}
