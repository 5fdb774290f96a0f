// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"maps"
	"slices"
	"strings"
)

// Serve is Order with the guarantees of a tree of queues. asked are the GPUs that each job asks for,
// and the ledger is what the queues hold; it is not changed. A nil ledger guarantees nothing.
//
// Siblings are compared level by level, from the roots down. On each level those jobs go first that
// fit into what the queue of that level is guaranteed and does not hold yet; among them, and among
// all others, the turns decide. So a root's guarantee decides between roots, and that of its children
// only which of them uses the root's turns: as inside a queue, the child that goes first takes the earliest,
// and the root gains nothing against others. A queue's own jobs, beside those of its children, count
// as a child without guarantee.
//
// Jobs are counted against a guarantee in the order in which the queue serves them. A job that does
// not fit any more keeps back those of its own queue behind it that ask for the same models: priorities
// hold there.
func (o Options) Serve(jobs []Job, asked []Amounts, factors map[string]float64, ledger *Ledger) []Ranked {
	if ledger == nil {
		return o.Order(jobs, factors)
	}
	s := &server{
		sorter: o.newSorter(jobs, factors), asked: asked, models: make([]string, len(jobs)), ledger: ledger, own: make([][]int, len(ledger.tree.sorted)),
	}
	for i := range jobs {
		s.models[i] = modelsOf(asked[i])
		n := ledger.tree.at(jobs[i].Queue)
		s.own[n.index] = append(s.own[n.index], i)
	}
	var roots []line
	for _, n := range ledger.tree.sorted {
		if n.parent == nil {
			roots = append(roots, s.serve(n))
		}
	}
	ranked, guaranteed := s.rank(join(roots)), 0
	for _, root := range roots {
		guaranteed += len(root.guaranteed)
	}
	for i := range ranked[:guaranteed] {
		ranked[i].Guaranteed = true
	}
	return ranked
}

// server sorts the jobs of a tree of queues.
type server struct {
	*sorter
	asked []Amounts
	// models are those that each job asks for: see modelsOf.
	models []string
	ledger *Ledger
	// own are the jobs of each queue without its children's, by node.index.
	own [][]int
}

// line is the jobs of a queue and its descendants: those that fit into what the queue is guaranteed,
// and the others. Each of the two is sorted by its turns.
type line struct {
	guaranteed, others []served
}

// kind is jobs of a queue that ask for the same models.
type kind struct{ queue, models string }

// serve returns the line of a queue.
func (s *server) serve(n *node) line {
	var below []line
	if own := s.own[n.index]; len(own) > 0 {
		below = append(below, line{others: s.byPriority(own)})
	}
	for _, child := range n.children {
		if jobs := s.serve(child); len(jobs.guaranteed)+len(jobs.others) > 0 {
			below = append(below, jobs)
		}
	}
	return s.split(n, join(below))
}

// join returns the jobs of siblings in their order.
func join(siblings []line) []served {
	guaranteed, others := make([][]served, 0, len(siblings)), make([][]served, 0, len(siblings))
	for _, sibling := range siblings {
		guaranteed, others = append(guaranteed, sibling.guaranteed), append(others, sibling.others)
	}
	return slices.Concat(merge(guaranteed), merge(others))
}

// split divides the jobs of a queue and its descendants by what the queue is guaranteed.
func (s *server) split(n *node, jobs []served) line {
	if len(n.guaranteed) == 0 {
		return line{others: s.takeTurns(jobs)}
	}
	var divided line
	held := maps.Clone(s.ledger.held[n.index])
	exceeded := map[kind]bool{}
	for _, job := range jobs {
		request, its := s.asked[job.index], kind{s.jobs[job.index].Queue, s.models[job.index]}
		if exceeded[its] || !n.within(held, request) {
			exceeded[its] = true
			divided.others = append(divided.others, job)
			continue
		}
		for model, amount := range request {
			held.enter(model, amount)
		}
		divided.guaranteed = append(divided.guaranteed, job)
	}
	s.takeTurns(divided.guaranteed)
	s.takeTurns(divided.others)
	return divided
}

// modelsOf returns a text that is equal for requests for the same models.
func modelsOf(request Amounts) string {
	if len(request) == 1 {
		for model := range request {
			return model
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(request)), " ")
}
