// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"sort"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Plan makes a booking for each waiting job, in their order: the first time at which it
// fits beside the running jobs and the bookings before it. The result has the order of
// the input. An invalid gang gets a Booking without a Plan.
func Plan(in *Input) []Booking {
	bookings, _ := Revise(in, nil)
	return bookings
}

// search finds a time before a limit, and the place that the gang has then.
func (c *calendar) search(w *wanted, limit time.Duration) (at time.Duration, plan *placement.Plan) {
	times := c.possible(w, limit)
	failed, step := -1, 1 // the last index that failed
	for i := 0; failed < len(times)-1; i, step = failed+step, 2*step {
		i = min(i, len(times)-1)
		if plan = c.planAt(w, times[i]); plan != nil {
			return c.bisect(w, times[failed+1:i+1], plan)
		}
		failed = i
	}
	return never, nil
}

// bisect finds the first time at which the gang fits. It does at the last, with a plan.
func (c *calendar) bisect(w *wanted, times []time.Duration, plan *placement.Plan) (time.Duration, *placement.Plan) {
	last := len(times) - 1
	found := sort.Search(last, func(i int) bool {
		earlier := c.planAt(w, times[i])
		if earlier != nil {
			plan = earlier
		}
		return earlier != nil
	})
	return times[found], plan
}

// planAt plans a gang at a time; nil if it does not fit.
func (c *calendar) planAt(w *wanted, at time.Duration) (plan *placement.Plan) {
	c.advance(c.useful(w, at), at, func() {
		if c.castShadows(at, w.until(at)) {
			plan = w.plan(c.cluster)
		}
	})
	return plan
}

// advance calls do while the Pods have left the nodes that end until a time.
func (c *calendar) advance(nodes []*nodeTimeline, at time.Duration, do func()) {
	c.cluster.Try(func() bool {
		for _, n := range nodes {
			for _, index := range n.endings {
				if c.endings[index].ends > at {
					break
				}
				c.cluster.Remove(c.endings[index].Name)
			}
		}
		do()
		return false
	})
}

// useful returns the nodes that members could use at a time, of those that Pods leave. If
// cards do not limit some role, these are all such nodes.
func (c *calendar) useful(w *wanted, at time.Duration) []*nodeTimeline {
	var list []*nodeTimeline
	until := w.until(at)
	for _, n := range c.nodes {
		if len(n.endings) == 0 || c.endings[n.endings[0]].ends > at {
			continue
		}
		free := n.freeCards(at, until)
		for i := range w.roles {
			r := &w.roles[i]
			if !r.counted() || r.suits[n.index] && free >= r.request.GPUs {
				list = append(list, n)
				break
			}
		}
	}
	return list
}
