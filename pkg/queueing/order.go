// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing

import (
	"cmp"
	"slices"
)

// Ranked is a waiting job's place in the order.
type Ranked struct {
	// Index is that of the job in the input.
	Index int
	// Guaranteed is true if it fits into what its root is guaranteed: it goes before all that
	// do not. Turn is the key that it is served by among those of which the same is true: one
	// of the keys of its queue's jobs.
	Guaranteed bool
	Turn       float64
	// Position is how many jobs of its queue are served before it.
	Position int
}

// Order returns waiting jobs in the order in which they are served if nothing is guaranteed.
// factors are the fair-share factors of the queues; a queue without one has had its due.
//
// Between queues the policy's key decides. A queue's keys are its turns: its jobs share them out
// by priority, so that a job of high priority passes the other jobs of its queue, and the queue
// gains nothing against others. Equal keys go to the job that was submitted first, then to the
// smaller key of the job; between queues, to the smaller name.
//
// With the policy FIFO and without queues this is the order by priority, then by submission.
func (o Options) Order(jobs []Job, factors map[string]float64) []Ranked {
	s := o.newSorter(jobs, factors)
	byQueue := map[string][]int{}
	for i := range jobs {
		byQueue[jobs[i].Queue] = append(byQueue[jobs[i].Queue], i)
	}
	names := make([]string, 0, len(byQueue))
	for name := range byQueue {
		names = append(names, name)
	}
	slices.Sort(names)
	lines := make([][]served, len(names))
	for i, name := range names {
		lines[i] = s.byPriority(byQueue[name])
	}
	return s.rank(merge(lines))
}

// sorter sorts waiting jobs.
type sorter struct {
	jobs []Job
	// keys are those of the policy.
	keys []float64
}

func (o Options) newSorter(jobs []Job, factors map[string]float64) *sorter {
	s := &sorter{jobs: jobs, keys: make([]float64, len(jobs))}
	for i := range jobs {
		factor, known := factors[jobs[i].Queue]
		if !known {
			factor = 1
		}
		s.keys[i] = o.Key(&jobs[i], factor)
	}
	return s
}

// served is a job that is served at a turn.
type served struct {
	index int // of the job
	turn  float64
}

// byPriority returns the jobs of one queue in their order. It sorts the indexes.
func (s *sorter) byPriority(indexes []int) []served {
	slices.SortFunc(indexes, s.compare)
	line := make([]served, len(indexes))
	for i, index := range indexes {
		line[i].index = index
	}
	return s.takeTurns(line)
}

// compare compares two jobs of a queue.
func (s *sorter) compare(a, b int) int {
	x, y := &s.jobs[a], &s.jobs[b]
	if order := cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(s.keys[a], s.keys[b])); order != 0 {
		return order
	}
	return cmp.Or(x.Submitted.Compare(y.Submitted), cmp.Compare(x.Key, y.Key))
}

// takeTurns gives the keys of a line's jobs to them in their order, the smallest first.
func (s *sorter) takeTurns(line []served) []served {
	turns := make([]float64, len(line))
	for i := range line {
		turns[i] = s.keys[line[i].index]
	}
	slices.Sort(turns)
	for i := range line {
		line[i].turn = turns[i]
	}
	return line
}

// merge returns the jobs of several lines by their turns. Equal turns go to the first of the lines.
func merge(lines [][]served) []served {
	switch len(lines) {
	case 0:
		return nil
	case 1:
		return lines[0]
	}
	half := len(lines) / 2
	first, second := merge(lines[:half]), merge(lines[half:])
	merged := make([]served, 0, len(first)+len(second))
	for len(first) > 0 && len(second) > 0 {
		if second[0].turn < first[0].turn {
			merged, second = append(merged, second[0]), second[1:]
		} else {
			merged, first = append(merged, first[0]), first[1:]
		}
	}
	return append(append(merged, first...), second...)
}

// rank returns the final places of jobs in the order in which they are served.
func (s *sorter) rank(line []served) []Ranked {
	ranked, positions := make([]Ranked, len(line)), map[string]int{}
	for i, job := range line {
		queue := s.jobs[job.index].Queue
		ranked[i] = Ranked{Index: job.index, Turn: job.turn, Position: positions[queue]}
		positions[queue]++
	}
	return ranked
}
