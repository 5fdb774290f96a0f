// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Change is a booking that has moved.
type Change struct {
	Key string
	// Was and Is are when the booking begins. Zero is none.
	Was, Is time.Time
	Cause   Cause
}

// Later reports whether a promise was not kept.
func (c *Change) Later() bool { return c.Is.IsZero() || !c.Was.IsZero() && c.Is.After(c.Was) }

// Tolerance is the difference of two times that is no change.
const Tolerance = time.Second

// Revise makes bookings as Plan does, given those of the last time: a job keeps its place
// and its time as long as they hold, unless it can start earlier. changes are the bookings
// that moved. Jobs without a booking before, and bookings of jobs that no longer wait,
// are no changes.
//
// Bookings before protect only against jobs that come after them in the input. Whoever
// wants to keep a promise against jobs that have come before it since, lists the promised
// jobs first.
func Revise(in *Input, before []Booking) (bookings []Booking, changes []Change) {
	c := newCalendar(in)
	known := make(map[string]*Booking, len(before))
	for i := range before {
		known[before[i].Key] = &before[i]
	}
	bookings = make([]Booking, len(in.Waiting))
	for i := range in.Waiting {
		job := &in.Waiting[i]
		was := known[job.Key]
		bookings[i] = c.book(job, was)
		is := &bookings[i]
		if was != nil && was.Plan != nil && moved(was, is, in.Now) {
			changes = append(changes, Change{Key: job.Key, Was: was.From, Is: is.From, Cause: c.cause(job, was, is)})
		}
		if is.Plan != nil {
			c.enter(is)
		}
	}
	return bookings, changes
}

// moved reports whether a booking begins at another time. One whose time has come but
// whose job has not started yet has not moved.
func moved(was, is *Booking, now time.Time) bool {
	if is.Plan == nil {
		return true
	}
	expected := was.From
	if expected.Before(now) {
		expected = now
	}
	difference := is.From.Sub(expected)
	return difference > Tolerance || difference < -Tolerance
}

// book makes the booking of a job, the same as before if that still holds.
func (c *calendar) book(job *Waiting, was *Booking) Booking {
	if job.Gang.Validate() != nil {
		return Booking{Key: job.Key}
	}
	w := c.wanted(job)
	if was == nil || was.Plan == nil {
		return c.first(w)
	}
	promised := was.begins(c.now)
	if plan := c.keep(w, was.Plan, promised); plan != nil {
		at, earlier := c.search(w, max(promised-Tolerance, 0))
		if earlier != nil {
			return c.made(w, at, earlier)
		}
		return c.made(w, promised, plan)
	}
	return c.first(w)
}

// first makes the booking at the first time at which the gang fits.
func (c *calendar) first(w *wanted) Booking {
	at, plan := c.search(w, never)
	if plan == nil {
		return Booking{Key: w.Key}
	}
	return c.made(w, at, plan)
}

// keep returns the plan if all its places are free at a time, and still what the gang needs.
func (c *calendar) keep(w *wanted, plan *placement.Plan, at time.Duration) (kept *placement.Plan) {
	nodes := c.nodesOf(plan)
	if nodes == nil || !w.fitsInto(plan) || !c.admits(w, plan) {
		return nil
	}
	c.advance(nodes, at, func() {
		if c.castShadows(at, w.until(at)) && c.placeAll(plan) {
			kept = plan
		}
	})
	return kept
}

// nodesOf returns the futures of a plan's nodes; nil if one of the nodes is gone.
func (c *calendar) nodesOf(plan *placement.Plan) []*nodeTimeline {
	var list []*nodeTimeline
	seen := map[string]bool{}
	for i := range plan.Members {
		name := plan.Members[i].Node
		if seen[name] {
			continue
		}
		seen[name] = true
		if c.cluster.CardStates(name) == nil {
			return nil
		}
		if n := c.byName[name]; n != nil {
			list = append(list, n)
		}
	}
	if list == nil {
		list = []*nodeTimeline{} // nobody leaves these nodes
	}
	return list
}

// fitsInto reports whether a plan has the gang's members, and no others.
func (w *wanted) fitsInto(plan *placement.Plan) bool {
	counts := make([]int, len(w.gang.Roles))
	for i := range plan.Members {
		m := &plan.Members[i]
		if m.Role >= len(counts) {
			return false
		}
		r := w.roles[m.Role].request
		if len(m.GPUs) != max(r.GPUs, min(r.Share, 1)) || m.CPU != r.CPU || m.Memory != r.Memory {
			return false
		}
		counts[m.Role]++
	}
	for i, count := range counts {
		if count != w.gang.Roles[i].Min {
			return false
		}
	}
	return true
}

// admits reports whether the nodes of a plan take such Pods at all.
func (c *calendar) admits(w *wanted, plan *placement.Plan) bool {
	for i := range plan.Members {
		m := &plan.Members[i]
		reason, err := c.cluster.Fit(m.Node, w.roles[m.Role].request)
		if err != nil || reason.Lasting() || w.excludes(m.Node) {
			return false
		}
	}
	return true
}

// placeAll places the members of a plan; false if one of them does not fit.
func (c *calendar) placeAll(plan *placement.Plan) bool {
	for i := range plan.Members {
		m := &plan.Members[i]
		if !c.cluster.Has(m.Node, &m.Use) || c.cluster.Place(placement.Pod{Name: memberName(i), Node: m.Node, Use: m.Use}) != nil {
			return false
		}
	}
	return true
}
