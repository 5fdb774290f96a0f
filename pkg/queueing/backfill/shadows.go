// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// Shadows returns what must stay free on the nodes now, so that bookings hold, while a
// job starts that ends within a bound (0: it may run for ever): Pods to be placed in the
// cluster until that job is planned. Bookings that begin after the job's end cast no
// shadow.
//
// A shadow is what a booking needs beyond what the Pods hold that are to leave before it
// (Booking.Leaving, those that still run, however late they are): their cards are not free
// now, and if they leave early, their cards are the booking's, not the job's. A shadow takes
// no Pod slot.
func Shadows(cluster *placement.Cluster, bookings []Booking, now time.Time, bound time.Duration) []placement.Pod {
	c := &calendar{cluster: cluster, now: now, byName: map[string]*nodeTimeline{}}
	known := map[string]int{} // in c.endings
	for i := range bookings {
		booking := &bookings[i]
		if booking.Plan == nil || booking.ends(now) == 0 {
			continue
		}
		c.enter(booking)
		for _, leaving := range booking.Leaving {
			pod := cluster.Look(leaving.Pod)
			if pod == nil {
				continue
			}
			ends := min(max(leaving.Ends.Sub(now), MinimumRemaining), booking.begins(now))
			if at, seen := known[leaving.Pod]; seen {
				c.endings[at].ends = min(c.endings[at].ends, ends)
				continue
			}
			known[leaving.Pod] = len(c.endings)
			c.endings = append(c.endings, ending{Pod: pod, job: leaving.Job, ends: ends})
		}
	}
	slices.SortFunc(c.endings, func(a, b ending) int { return cmp.Or(cmp.Compare(a.ends, b.ends), cmp.Compare(a.Name, b.Name)) })
	for i := range c.endings {
		n := c.node(c.endings[i].Node)
		n.endings = append(n.endings, i)
	}
	until := never
	if bound > 0 {
		until = bound
	}
	return c.shadows(beforeNow, until)
}

// castShadows places the shadows of all bookings in a window.
func (c *calendar) castShadows(from, until time.Duration) (ok bool) {
	for _, shadow := range c.shadows(from, until) {
		if c.cluster.Place(shadow) != nil {
			return false
		}
	}
	return true
}

// shadows returns what must stay free from one time to another, on a cluster without the
// Pods that have left until the first. Nodes that are gone have none.
func (c *calendar) shadows(from, until time.Duration) []placement.Pod {
	var pods []placement.Pod
	done := make([]bool, len(c.nodes))
	for _, b := range c.booked {
		if !b.during(from, until) {
			continue
		}
		for _, n := range b.nodes {
			if !done[n.index] && c.cluster.CardStates(n.name) != nil {
				pods = append(pods, c.shadowsOn(n, from, until)...)
			}
			done[n.index] = true
		}
	}
	return pods
}

// shadowsOn returns the shadows on a node. What is needed is the most that is needed at any
// moment of the window; it changes when bookings begin.
func (c *calendar) shadowsOn(n *nodeTimeline, from, until time.Duration) []placement.Pod {
	var most need
	for _, b := range n.booked {
		if b.during(from, until) {
			most.atLeast(c.needAt(n, from, max(from, b.from)))
		}
	}
	return most.pods(n.name)
}

// needAt returns what bookings need on a node at a moment, beyond what Pods hold that
// leave between a time and that moment.
func (c *calendar) needAt(n *nodeTimeline, from, moment time.Duration) *need {
	var sum need
	for i := range n.booked {
		if b := &n.booked[i]; b.from <= moment && moment < b.until {
			for _, m := range b.members {
				sum.add(&m.Use, 1)
			}
		}
	}
	for _, index := range n.endings {
		if leaving := &c.endings[index]; leaving.ends > from && leaving.ends <= moment {
			sum.add(&leaving.Use, -1)
		}
	}
	return &sum
}

// need is resources on one node; negative amounts are more than is needed.
type need struct {
	cpu, memory int64
	others      map[string]int64
	// percent is by the index of the card, up to the last one that is needed.
	percent []int
}

func (n *need) add(use *placement.Use, sign int) {
	n.cpu += int64(sign) * use.CPU
	n.memory += int64(sign) * use.Memory
	for _, other := range use.Others {
		if n.others == nil {
			n.others = map[string]int64{}
		}
		n.others[other.Resource] += int64(sign) * other.Value
	}
	for _, card := range use.GPUs {
		n.grow(card + 1)
		n.percent[card] += sign * use.Percent
	}
}

// grow makes a need one of so many cards at least.
func (n *need) grow(cards int) {
	if more := cards - len(n.percent); more > 0 {
		n.percent = append(n.percent, make([]int, more)...)
	}
}

// atLeast raises each amount to that of another need.
func (n *need) atLeast(other *need) {
	n.cpu, n.memory = max(n.cpu, other.cpu), max(n.memory, other.memory)
	for resource, value := range other.others {
		if n.others == nil {
			n.others = map[string]int64{}
		}
		n.others[resource] = max(n.others[resource], value)
	}
	n.grow(len(other.percent))
	for card, percent := range other.percent {
		n.percent[card] = max(n.percent[card], percent)
	}
}

// pods returns Pods that hold what is needed. The cards of one Pod are held to the same
// percentage.
func (n *need) pods(node string) []placement.Pod {
	cards := map[int][]int{}
	for card, percent := range n.percent {
		if percent > 0 {
			percent = min(percent, placement.Card)
			cards[percent] = append(cards[percent], card)
		}
	}
	rest := placement.Use{CPU: max(n.cpu, 0), Memory: max(n.memory, 0), Others: placement.NewAmounts(n.others), NoSlot: true}
	var pods []placement.Pod
	for _, percent := range slices.Sorted(maps.Keys(cards)) {
		rest.GPUs, rest.Percent = cards[percent], percent
		pods = append(pods, placement.Pod{Name: fmt.Sprintf("booked on %s: %d%%", node, percent), Node: node, Use: rest})
		rest = placement.Use{NoSlot: true}
	}
	if len(pods) == 0 && (rest.CPU > 0 || rest.Memory > 0 || len(rest.Others) > 0) {
		pods = append(pods, placement.Pod{Name: "booked on " + node, Node: node, Use: rest})
	}
	return pods
}
