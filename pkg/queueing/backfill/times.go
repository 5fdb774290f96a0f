// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// role is what the search needs of a gang's role.
type role struct {
	request *placement.Request
	min     int
	// rooms are nil for a role that cards do not limit.
	*rooms
	// room is how many members have the cards that they need on each node of the calendar,
	// total the sum of it and of the other nodes' room.
	room  []int
	total int
}

// rooms is where a request fits.
type rooms struct {
	// suits are the nodes of the calendar that the request could use if they were empty.
	suits []bool
	// now is how many fit now on nodes that are not in the calendar.
	now int
}

// counted reports whether the cards limit the role: a member that needs whole ones.
func (r *role) counted() bool { return r.request.GPUs > 0 }

// wanted is a gang for which a time is searched.
type wanted struct {
	*Waiting
	gang  placement.Gang // with the least number of members
	roles []role
}

func (c *calendar) wanted(job *Waiting) *wanted {
	w := &wanted{Waiting: job, gang: *job.Gang}
	w.gang.Roles = slices.Clone(job.Gang.Roles)
	if !slices.ContainsFunc(w.gang.Roles, func(r placement.Role) bool { return r.Min > 0 }) {
		w.gang.Roles[0].Min = 1 // a gang of nobody could start always, and would get nothing
	}
	for i := range w.gang.Roles {
		r := &w.gang.Roles[i]
		if r.Min > 0 {
			r.Max = r.Min
		}
		w.roles = append(w.roles, role{request: c.cluster.Request(r.Shape), min: r.Min})
	}
	return w
}

// plan finds places for the least number of members; nil if there are none.
func (w *wanted) plan(cluster *placement.Cluster) *placement.Plan {
	plan, _, _ := cluster.Plan(&w.gang)
	if plan != nil {
		plan.Members = slices.DeleteFunc(plan.Members, func(m placement.Member) bool { return w.gang.Roles[m.Role].Min == 0 })
	}
	return plan
}

// until returns when the job ends that starts at a time.
func (w *wanted) until(from time.Duration) time.Duration {
	if w.Bound <= 0 {
		return never
	}
	return plus(from, w.Bound)
}

// possible returns the times, before a limit, at which something changes and there are enough
// cards for each role by itself, beginning with now if that is one of them. No other time
// needs to be tried.
func (c *calendar) possible(w *wanted, limit time.Duration) []time.Duration {
	for i := range w.roles {
		c.count(w, &w.roles[i])
	}
	var times []time.Duration
	if limit > 0 && w.enough() {
		times = append(times, 0)
	}
	booked := c.turningPoints(w)
	next, nextBooked := 0, 0
	for next < len(c.endings) || nextBooked < len(booked) {
		at := never
		if next < len(c.endings) {
			at = c.endings[next].ends
		}
		if nextBooked < len(booked) {
			at = min(at, booked[nextBooked].at)
		}
		if at >= limit {
			break
		}
		for ; next < len(c.endings) && c.endings[next].ends == at; next++ {
			w.recount(c.endings[next].on, at)
		}
		for ; nextBooked < len(booked) && booked[nextBooked].at == at; nextBooked++ {
			for _, n := range booked[nextBooked].by.nodes {
				w.recount(n, at)
			}
		}
		if w.enough() {
			times = append(times, at)
		}
	}
	return times
}

// turning is a time at which an entry begins or ceases to be in the way.
type turning struct {
	at time.Duration
	by *entry
}

// turningPoints returns when bookings begin and cease to be in the way of a job, in order.
func (c *calendar) turningPoints(w *wanted) []turning {
	var list []turning
	for _, b := range c.booked {
		if b.until < never {
			list = append(list, turning{at: b.until, by: b})
		}
		if w.Bound > 0 && b.from > w.Bound {
			list = append(list, turning{at: b.from - w.Bound + 1, by: b})
		}
	}
	slices.SortStableFunc(list, func(a, b turning) int { return int(min(max(a.at-b.at, -1), 1)) })
	return list
}

// count initialises a role's counts at the present.
func (c *calendar) count(w *wanted, r *role) {
	if !r.counted() {
		return
	}
	r.rooms = c.roomsOf(r.request)
	r.total, r.room = r.now, make([]int, len(c.nodes))
	until := w.until(0)
	for i, n := range c.nodes {
		if r.suits[i] {
			r.room[i] = n.freeCards(0, until) / r.request.GPUs
			r.total += r.room[i]
		}
	}
}

// roomsOf returns where a request fits.
func (c *calendar) roomsOf(r *placement.Request) *rooms {
	known := c.rooms[r]
	if known == nil {
		known = &rooms{now: c.cluster.Root().Room(r)}
		c.rooms[r] = known
	}
	for _, n := range c.nodes[len(known.suits):] { // those that are not judged yet
		reason, err := c.cluster.Fit(n.name, r)
		known.suits = append(known.suits, err == nil && !reason.Lasting())
		known.now -= c.cluster.RoomOn(n.name, r)
	}
	return known
}

// recount updates the counts after something has changed on a node.
func (w *wanted) recount(n *nodeTimeline, at time.Duration) {
	for i := range w.roles {
		r := &w.roles[i]
		if r.rooms == nil || !r.suits[n.index] {
			continue
		}
		before := r.room[n.index]
		r.room[n.index] = n.freeCards(at, w.until(at)) / r.request.GPUs
		r.total += r.room[n.index] - before
	}
}

// enough reports whether there are enough cards for each role by itself.
func (w *wanted) enough() bool {
	for i := range w.roles {
		if r := &w.roles[i]; r.counted() && r.total < r.min {
			return false
		}
	}
	return true
}
