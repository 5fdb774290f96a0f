// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const card = 100

// mostCards is how many GPUs a node is taken to have at most.
const mostCards = 64

// class is what several jobs need.
type class struct {
	needs []need
	// total is the percentage of all members.
	total int
}

// need is a Need with the numbers of its models.
type need struct {
	members, percent int
	models           []int
}

// shared is what all draws have in common.
type shared struct {
	models map[string]int
	// apart are the models of nodes that are apart.
	apart   map[int]bool
	classes []class
	// jobs are those that wait, then those of the scenarios in the order of their arrival; classOf, bounds and rankOf
	// are their classes, their bounds (never for unknown ones), and their places in the order, of which byRank is the
	// inverse.
	jobs           []*Waiting
	classOf        []int
	bounds         []time.Duration
	rankOf, byRank []int
	// queueOf are the queues of the jobs that wait, as numbers, nextOf the next job of the same queue, and firstOf the
	// first one of each.
	queueOf, nextOf, firstOf []int
	// scenarios are the jobs that come, those of each scenario in the order of their arrival.
	scenarios [][]arrival
	// top is the highest bucket that a node can be in.
	top int
}

// arrival is when a job comes, by its index in shared.jobs.
type arrival struct {
	after time.Duration
	job   int
}

// prepare numbers models and classes.
func prepare(in *Input) *shared {
	p := &shared{models: map[string]int{}, apart: map[int]bool{}}
	for i := range in.Nodes {
		if _, known := p.models[in.Nodes[i].Model]; !known {
			p.apart[len(p.models)] = in.Nodes[i].Apart
			p.models[in.Nodes[i].Model] = len(p.models)
		}
		p.top = max(p.top, bucket(in.Nodes[i].Percent))
	}
	known := map[string]int{}
	number := func(job *Waiting) {
		key := job.class()
		id, found := known[key]
		if !found {
			id = len(p.classes)
			known[key] = id
			p.classes = append(p.classes, p.newClass(job.Needs))
		}
		p.jobs, p.classOf, p.bounds = append(p.jobs, job), append(p.classOf, id), append(p.bounds, job.planned())
	}
	for i := range in.Waiting {
		number(&in.Waiting[i])
	}
	for _, scenario := range in.Scenarios {
		ordered := make([]*Coming, 0, len(scenario))
		for i := range scenario {
			ordered = append(ordered, &scenario[i])
		}
		slices.SortStableFunc(ordered, func(a, b *Coming) int { return cmp.Compare(a.After, b.After) })
		arrivals := make([]arrival, 0, len(scenario))
		for _, coming := range ordered {
			arrivals = append(arrivals, arrival{after: coming.After, job: len(p.jobs)})
			number(&coming.Waiting)
		}
		p.scenarios = append(p.scenarios, arrivals)
	}
	p.rank(len(in.Waiting))
	p.lineUp(in.Waiting)
	return p
}

// lineUp finds the jobs of each queue.
func (p *shared) lineUp(waiting []Waiting) {
	numbers, last := map[string]int{}, []int{}
	p.queueOf, p.nextOf = make([]int, len(waiting)), make([]int, len(waiting))
	for i := range waiting {
		queue, known := numbers[waiting[i].Queue]
		if known {
			p.nextOf[last[queue]] = i
			last[queue] = i
		} else {
			queue = len(last)
			numbers[waiting[i].Queue] = queue
			p.firstOf, last = append(p.firstOf, i), append(last, i)
		}
		p.queueOf[i] = queue
	}
}

// class returns a key of what a job needs.
func (w *Waiting) class() string {
	var b strings.Builder
	for i := range w.Needs {
		fmt.Fprintf(&b, "%d×%d%q", w.Needs[i].Members, w.Needs[i].Percent, w.Needs[i].Models)
	}
	return b.String()
}

func (p *shared) newClass(needs []Need) class {
	var made class
	for i := range needs {
		translated := need{members: needs[i].Members, percent: needs[i].Percent}
		for _, model := range needs[i].Models {
			if id, known := p.models[model]; known {
				translated.models = append(translated.models, id)
			}
		}
		if len(needs[i].Models) == 0 {
			for id := range len(p.models) {
				if !p.apart[id] {
					translated.models = append(translated.models, id)
				}
			}
		}
		made.needs = append(made.needs, translated)
		made.total += translated.members * translated.percent
	}
	slices.SortStableFunc(made.needs, func(a, b need) int { return -cmp.Compare(a.percent, b.percent) })
	return made
}

// pool is what is free on the nodes.
type pool struct {
	nodes []spot
	// buckets are the indices of nodes by model and number of free GPUs, rounded down.
	buckets [][][]int
	top     int
	// percent is what is free in all.
	percent int
	// touched are nodes with something tentative.
	touched []int
	// chosen is memory for book.
	chosen []opening
}

// spot is a node.
type spot struct {
	model    int
	free     int
	position int // in its bucket
	// tentative is what members of the job take that is tried at the moment.
	tentative int
	// planned is when jobs are planned to end here.
	planned []plannedEnd
	parts   []*part
}

type plannedEnd struct {
	at      time.Duration
	percent int
}

// booking is the nodes for a job that could not start.
type booking struct {
	from  time.Duration
	parts []*part
}

// part is the part of a booking on one node.
type part struct {
	node int
	from time.Duration
	// spare is what others may hold there when it begins.
	spare int
}

func newPool(p *shared, nodes []Node) *pool {
	made := &pool{nodes: make([]spot, len(nodes)), buckets: make([][][]int, len(p.models)), top: p.top}
	for model := range made.buckets {
		made.buckets[model] = make([][]int, mostCards+1)
	}
	for i := range nodes {
		made.nodes[i] = spot{model: p.models[nodes[i].Model], free: nodes[i].Percent}
		made.percent += nodes[i].Percent
		made.add(i)
	}
	return made
}

// bucket returns the bucket of an amount.
func bucket(percent int) int { return min(max(percent, 0)/card, mostCards) }

func (p *pool) add(node int) {
	n := &p.nodes[node]
	list := &p.buckets[n.model][bucket(n.free)]
	n.position = len(*list)
	*list = append(*list, node)
}

func (p *pool) remove(node int) {
	n := &p.nodes[node]
	list := &p.buckets[n.model][bucket(n.free)]
	last := (*list)[len(*list)-1]
	(*list)[n.position] = last
	p.nodes[last].position = n.position
	*list = (*list)[:len(*list)-1]
}

func (p *pool) shift(node, percent int) {
	n := &p.nodes[node]
	same := bucket(n.free) == bucket(n.free+percent)
	if !same {
		p.remove(node)
	}
	n.free += percent
	p.percent += percent
	if !same {
		p.add(node)
	}
}

// take makes a job hold something.
func (p *pool) take(hold Hold, planned time.Duration) {
	p.shift(hold.Node, -hold.Percent)
	n := &p.nodes[hold.Node]
	n.planned = append(n.planned, plannedEnd{at: planned, percent: hold.Percent})
	for _, part := range n.parts {
		if planned > part.from {
			part.spare -= hold.Percent
		}
	}
}

// giveBack undoes take.
func (p *pool) giveBack(hold Hold, planned time.Duration) {
	p.shift(hold.Node, hold.Percent)
	n := &p.nodes[hold.Node]
	if at := slices.Index(n.planned, plannedEnd{at: planned, percent: hold.Percent}); at >= 0 {
		n.planned = slices.Delete(n.planned, at, at+1)
	}
	for _, part := range n.parts {
		if planned > part.from {
			part.spare += hold.Percent
		}
	}
}

// usable returns what a job that is planned to end at a time may take of a node.
func (n *spot) usable(until time.Duration, mine *booking) int {
	free := n.free
	for _, part := range n.parts {
		if until > part.from && (mine == nil || !slices.Contains(mine.parts, part)) {
			free = min(free, part.spare)
		}
	}
	return free - n.tentative
}

// fit finds places for all members, where the fewest GPUs are left.
func (p *pool) fit(what *class, until time.Duration, mine *booking) (holds []Hold, fits bool) {
	if what.total > p.percent {
		return nil, false
	}
	defer p.forget()
	for i := range what.needs {
		needed := &what.needs[i]
		left := needed.members
		for free := needed.percent / card; free <= p.top && left > 0; free++ {
			for _, model := range needed.models {
				for _, node := range p.buckets[model][free] {
					n := &p.nodes[node]
					count := left
					if needed.percent > 0 {
						count = min(count, n.usable(until, mine)/needed.percent)
					}
					if count <= 0 {
						continue
					}
					left -= count
					n.tentative += count * needed.percent
					p.touched = append(p.touched, node)
					holds = append(holds, Hold{Node: node, Percent: count * needed.percent})
					if left == 0 {
						break
					}
				}
			}
		}
		if left > 0 {
			return nil, false
		}
	}
	return holds, true
}

func (p *pool) forget() {
	for _, node := range p.touched {
		p.nodes[node].tentative = 0
	}
	p.touched = p.touched[:0]
}

// book books the nodes that are planned to have room first, for a job whose members all
// need the same; nil if that is never. Nodes with bookings are left to those.
func (p *pool) book(what *class, now time.Duration) *booking {
	if len(what.needs) != 1 || what.needs[0].percent == 0 {
		return nil
	}
	needed := &what.needs[0]
	chosen := &firstOpenings{most: needed.members, list: p.chosen[:0]}
	for node := range p.nodes {
		if len(p.nodes[node].parts) == 0 && slices.Contains(needed.models, p.nodes[node].model) {
			p.nodes[node].openings(chosen, node, needed, now)
		}
	}
	p.chosen = chosen.list
	if len(chosen.list) < needed.members {
		return nil
	}
	r := &booking{from: chosen.list[0].at}
	members := map[int]int{}
	for _, opening := range chosen.list {
		members[opening.node]++
	}
	for node, count := range members {
		n := &p.nodes[node]
		made := &part{node: node, from: r.from, spare: n.freeAt(r.from) - count*needed.percent}
		n.parts = append(n.parts, made)
		r.parts = append(r.parts, made)
	}
	return r
}

// openings adds when a node has room for one member, for two, …, by planned ends.
func (n *spot) openings(chosen *firstOpenings, node int, needed *need, now time.Duration) {
	free, members := n.free, 0
	for ; (members+1)*needed.percent <= free && members < needed.members; members++ {
		chosen.add(opening{at: now, node: node})
	}
	if members == needed.members || chosen.full(opening{at: now, node: node}) {
		return
	}
	slices.SortFunc(n.planned, func(a, b plannedEnd) int { return cmp.Compare(a.at, b.at) })
	for _, leaves := range n.planned {
		if leaves.at == never {
			break
		}
		next := opening{at: max(leaves.at, now), node: node}
		if chosen.full(next) {
			return
		}
		free += leaves.percent
		for ; (members+1)*needed.percent <= free && members < needed.members; members++ {
			chosen.add(next)
		}
	}
}

// freeAt returns what is planned to be free at a time.
func (n *spot) freeAt(at time.Duration) int {
	free := n.free
	for _, leaves := range n.planned {
		if leaves.at <= at {
			free += leaves.percent
		}
	}
	return free
}

// release ends a booking.
func (p *pool) release(r *booking) {
	for _, gone := range r.parts {
		n := &p.nodes[gone.node]
		n.parts = slices.DeleteFunc(n.parts, func(other *part) bool { return other == gone })
	}
}
