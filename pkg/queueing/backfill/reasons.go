// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"fmt"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// memberName is the name of a booked member while it is tried.
func memberName(index int) string { return fmt.Sprintf("booked member %d", index) }

func (w *wanted) excludes(node string) bool { return slices.Contains(w.Gang.Except, node) }

// made returns the booking of a place from a time on.
func (c *calendar) made(w *wanted, at time.Duration, plan *placement.Plan) Booking {
	r := Booking{Key: w.Key, From: c.now.Add(at), Plan: plan}
	if until := w.until(at); until < never {
		r.Until = c.now.Add(until)
	}
	for _, n := range c.nodesOf(plan) {
		for _, index := range n.endings {
			if leaving := &c.endings[index]; leaving.ends <= at {
				r.Leaving = append(r.Leaving, Leaver{Pod: leaving.Name, Job: leaving.job, Ends: c.now.Add(leaving.ends)})
			}
		}
	}
	r.Behind = c.behind(&r, at)
	return r
}

// behind returns the job that a booking waits for: the last one that leaves its cards, a
// running one or one with an earlier booking; else the last one that leaves its nodes.
func (c *calendar) behind(r *Booking, at time.Duration) string {
	onCards, onNodes := lastEnd{}, lastEnd{}
	for i := range r.Plan.Members {
		m := &r.Plan.Members[i]
		n := c.byName[m.Node]
		if n == nil {
			continue
		}
		for _, index := range n.endings {
			if leaving := &c.endings[index]; leaving.ends <= at {
				onNodes.later(leaving.ends, leaving.job)
				if sharesCard(m.GPUs, leaving.GPUs) {
					onCards.later(leaving.ends, leaving.job)
				}
			}
		}
		for _, b := range n.booked {
			if b.until <= at {
				onNodes.later(b.until, b.Key)
				if slices.ContainsFunc(b.members, func(other *placement.Member) bool { return sharesCard(m.GPUs, other.GPUs) }) {
					onCards.later(b.until, b.Key)
				}
			}
		}
	}
	if onCards.job != "" {
		return onCards.job
	}
	return onNodes.job
}

// lastEnd is the last end of some jobs.
type lastEnd struct {
	at  time.Duration
	job string
}

func (e *lastEnd) later(at time.Duration, job string) {
	if e.job == "" || at > e.at {
		e.at, e.job = at, job
	}
}

func sharesCard(a, b []int) bool {
	return slices.ContainsFunc(a, func(card int) bool { return slices.Contains(b, card) })
}

// cause returns why a booking moved.
func (c *calendar) cause(job *Waiting, was, is *Booking) Cause {
	if is.Plan != nil && is.From.Before(was.From) {
		return c.earlier(was)
	}
	for i := range was.Plan.Members {
		if lost := c.lost(job, &was.Plan.Members[i]); lost != nil {
			return *lost
		}
	}
	if overrun := c.overrun(was); overrun != nil {
		return *overrun
	}
	for _, b := range c.booked {
		if b.from < plus(was.begins(c.now), job.Bound) && overlaps(b.Plan, was.Plan) {
			return Cause{Kind: GoesFirst, Job: b.Key}
		}
	}
	return Cause{Kind: Taken}
}

// lost returns why a node can't take a member any more; nil if it can.
func (c *calendar) lost(job *Waiting, m *placement.Member) *Cause {
	if m.Role >= len(job.Gang.Roles) {
		return &Cause{Kind: MembersChanged}
	}
	reason, err := c.cluster.Fit(m.Node, c.cluster.Request(job.Gang.Roles[m.Role].Shape))
	switch {
	case err != nil:
		return nodeLost(fmt.Sprintf("node %s is gone", m.Node))
	case reason.Lasting():
		return nodeLost(fmt.Sprintf("node %s %s", m.Node, reason))
	case slices.Contains(job.Gang.Except, m.Node):
		return nodeLost(fmt.Sprintf("node %s %s", m.Node, placement.Excluded))
	}
	cards := c.cluster.CardStates(m.Node)
	for _, card := range m.GPUs {
		if card >= len(cards) || cards[card].Broken {
			return nodeLost(fmt.Sprintf("a GPU of node %s is broken", m.Node))
		}
	}
	return nil
}

// overrunTolerance is by how much a job may end later than it was expected to without being the reason: its
// start is known to the second, and only after it has begun.
const overrunTolerance = 5 * time.Second

// overrun returns which job, that was to have left, runs on; nil if none does.
func (c *calendar) overrun(was *Booking) *Cause {
	var longest lastEnd
	planned := make(map[string]bool, len(was.Leaving))
	for _, leaving := range was.Leaving {
		planned[leaving.Pod] = true
	}
	for i := range c.endings {
		if expected := &c.endings[i]; planned[expected.Name] && expected.ends > was.begins(c.now)+overrunTolerance {
			longest.later(expected.ends, expected.job)
		}
		delete(planned, c.endings[i].Name)
	}
	if longest.job != "" {
		return &Cause{Kind: Overrun, Job: longest.job}
	}
	for _, leaving := range was.Leaving { // those whose end is not known any more
		if _, runs := c.cluster.Running(leaving.Pod); planned[leaving.Pod] && runs {
			return &Cause{Kind: EndUnknown, Job: leaving.Job}
		}
	}
	return nil
}

// earlier returns why a booking begins earlier.
func (c *calendar) earlier(was *Booking) Cause {
	for _, leaving := range was.Leaving {
		if _, runs := c.cluster.Running(leaving.Pod); !runs && leaving.Ends.After(c.now) {
			return Cause{Kind: EndedEarly, Job: leaving.Job}
		}
	}
	return Cause{Kind: Room}
}

// overlaps reports whether two plans use the same cards.
func overlaps(a, b *placement.Plan) bool {
	for i := range a.Members {
		for j := range b.Members {
			if a.Members[i].Node == b.Members[j].Node && sharesCard(a.Members[i].GPUs, b.Members[j].GPUs) {
				return true
			}
		}
	}
	return false
}
