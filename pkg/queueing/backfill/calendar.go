// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill

import (
	"cmp"
	"math"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// never is after all other times. Times in this package are durations from now.
const never = time.Duration(math.MaxInt64)

// beforeNow is before all times at which Pods leave that have not left yet.
const beforeNow = time.Duration(-1)

// plus adds durations; never and what would exceed it is never.
func plus(at, duration time.Duration) time.Duration {
	if at > never-duration {
		return never
	}
	return at + duration
}

// calendar is when what becomes free, and what of it is booked.
type calendar struct {
	cluster *placement.Cluster
	now     time.Time
	// endings are the Pods whose end is known, the first end first.
	endings []ending
	nodes   []*nodeTimeline
	byName  map[string]*nodeTimeline
	booked  []*entry
	rooms   map[*placement.Request]*rooms
	// timelines and free are memory for nodes, in large chunks; cards is memory for setFree.
	timelines []nodeTimeline
	free      []time.Duration
	cards     []placement.CardState
}

// chunk is for how many nodes, or cards, memory is allocated at once.
const chunk = 1024

// ending is a Pod that runs and is expected to end.
type ending struct {
	*placement.Pod
	job  string
	ends time.Duration
	on   *nodeTimeline
}

// entry is a booking that is in the way of others.
type entry struct {
	*Booking
	from, until time.Duration
	nodes       []*nodeTimeline
}

// during reports whether an entry is in the way of a job at some time of a window.
func (b *entry) during(from, until time.Duration) bool {
	return b.from < until && b.until > from
}

// nodeTimeline is the future of one node.
type nodeTimeline struct {
	name string
	// index is that in calendar.nodes.
	index int
	// free is when each card becomes entirely free, by its index.
	free []time.Duration
	// endings are indices of calendar.endings, the first end first.
	endings []int
	booked  []part
}

// part is the part of an entry on one node.
type part struct {
	*entry
	members []*placement.Member
}

func newCalendar(in *Input) *calendar {
	c := &calendar{
		cluster: in.Cluster, now: in.Now, byName: make(map[string]*nodeTimeline, len(in.Running)), rooms: map[*placement.Request]*rooms{},
	}
	c.endings = make([]ending, 0, len(in.Running))
	for _, end := range byEnd(in) {
		job, ends := &in.Running[end.index], max(end.ends, MinimumRemaining)
		for _, name := range job.Pods {
			if pod := in.Cluster.Look(name); pod != nil {
				c.endings = append(c.endings, ending{Pod: pod, job: job.Key, ends: ends})
			}
		}
	}
	c.assign()
	for _, n := range c.nodes {
		c.setFree(n)
	}
	return c
}

// assign gives the nodes their endings, all in one chunk of memory.
func (c *calendar) assign() {
	counts := make([]int, 0, len(c.endings))
	for i := range c.endings {
		n := c.node(c.endings[i].Node)
		c.endings[i].on = n
		if n.index == len(counts) {
			counts = append(counts, 0)
		}
		counts[n.index]++
	}
	all := make([]int, len(c.endings))
	for i, n := range c.nodes {
		n.endings, all = all[:0:counts[i]], all[counts[i]:]
	}
	for i := range c.endings {
		n := c.endings[i].on
		n.endings = append(n.endings, i)
	}
}

// jobEnd is when a running job ends, by its index.
type jobEnd struct {
	ends  time.Duration
	index int
}

// byEnd returns the ends that are known, the first one first.
func byEnd(in *Input) []jobEnd {
	order := make([]jobEnd, 0, len(in.Running))
	for i := range in.Running {
		if ends := in.Running[i].Ends; !ends.IsZero() {
			order = append(order, jobEnd{ends: ends.Sub(in.Now), index: i})
		}
	}
	slices.SortFunc(order, func(a, b jobEnd) int {
		if a.ends != b.ends {
			return cmp.Compare(a.ends, b.ends)
		}
		return cmp.Compare(in.Running[a.index].Key, in.Running[b.index].Key)
	})
	return order
}

// node returns the future of a node, which it creates if needed, without what becomes free.
func (c *calendar) node(name string) *nodeTimeline {
	n := c.byName[name]
	if n == nil {
		if len(c.timelines) == 0 {
			c.timelines = make([]nodeTimeline, chunk)
		}
		n, c.timelines = &c.timelines[0], c.timelines[1:]
		n.name, n.index = name, len(c.nodes)
		c.byName[name] = n
		c.nodes = append(c.nodes, n)
	}
	return n
}

// setFree computes when the cards of a node become free.
func (c *calendar) setFree(n *nodeTimeline) {
	cards := c.cluster.AppendCardStates(c.cards[:0], n.name)
	c.cards = cards
	if len(c.free) < len(cards) {
		c.free = make([]time.Duration, max(chunk, len(cards)))
	}
	n.free, c.free = c.free[:len(cards):len(cards)], c.free[len(cards):] // 0 is now
	for i, card := range cards {
		if card.Broken || card.Free < placement.Card {
			n.free[i] = never
		}
	}
	for _, index := range n.endings {
		leaving := &c.endings[index]
		for _, card := range leaving.GPUs {
			if card >= len(cards) || cards[card].Broken {
				continue
			}
			if cards[card].Free += leaving.Percent; cards[card].Free >= placement.Card {
				n.free[card] = leaving.ends
			}
		}
	}
}

// enter makes a booking stand in the way of later ones.
func (c *calendar) enter(r *Booking) {
	b := &entry{Booking: r, from: r.begins(c.now), until: r.ends(c.now)}
	c.booked = append(c.booked, b)
	for i := range r.Plan.Members {
		name := r.Plan.Members[i].Node
		n, known := c.byName[name]
		if !known {
			n = c.node(name)
			c.setFree(n)
		}
		if last := len(n.booked) - 1; last < 0 || n.booked[last].entry != b {
			n.booked = append(n.booked, part{entry: b})
			b.nodes = append(b.nodes, n)
		}
		here := &n.booked[len(n.booked)-1]
		here.members = append(here.members, &r.Plan.Members[i])
	}
}

// usualCards is how many cards of a node are looked at without allocating memory.
const usualCards = 64

// freeCards counts the cards of a node that are entirely free and not booked in a window.
func (n *nodeTimeline) freeCards(from, until time.Duration) int {
	var buffer [usualCards]bool
	taken := buffer[:]
	if len(n.free) > len(buffer) {
		taken = make([]bool, len(n.free))
	}
	for i := range n.booked {
		if n.booked[i].during(from, until) {
			for _, m := range n.booked[i].members {
				for _, card := range m.GPUs {
					if card < len(taken) { // the node may have lost GPUs since
						taken[card] = true
					}
				}
			}
		}
	}
	count := 0
	for card, free := range n.free {
		if free <= from && !taken[card] {
			count++
		}
	}
	return count
}
