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
	// Turn is the key that it is served by: one of the keys of its queue's jobs.
	Turn float64
	// Position is how many jobs of its queue are served before it.
	Position int
}

// Order returns waiting jobs in the order in which they are served. factors are the
// fair-share factors of the queues; a queue without one has had its due.
//
// Guaranteed jobs go first. Between queues the policy's key decides. A queue's keys are its
// turns: its jobs share them out by priority, so that a job of high priority passes the
// other jobs of its queue, and the queue gains nothing against others. Equal keys go to the
// job that was submitted first, then to the smaller key of the job.
//
// With the policy FIFO and without queues this is the order by priority, then by submission.
func (o Options) Order(jobs []Job, factors map[string]float64) []Ranked {
	o = o.WithDefaults()
	keys := make([]float64, len(jobs))
	groups := map[group][]int{}
	for i := range jobs {
		factor, known := factors[jobs[i].Queue]
		if !known {
			factor = 1
		}
		keys[i] = o.key(&jobs[i], factor)
		in := group{queue: jobs[i].Queue, guaranteed: jobs[i].Guaranteed}
		groups[in] = append(groups[in], i)
	}
	ranked := make([]Ranked, 0, len(jobs))
	for in, members := range groups {
		before := 0
		if !in.guaranteed {
			before = len(groups[group{queue: in.queue, guaranteed: true}])
		}
		ranked = append(ranked, takeTurns(jobs, keys, members, before)...)
	}
	slices.SortFunc(ranked, func(a, b Ranked) int {
		x, y := &jobs[a.Index], &jobs[b.Index]
		return cmp.Or(guaranteedFirst(x, y), cmp.Compare(a.Turn, b.Turn), cmp.Compare(x.Queue, y.Queue), cmp.Compare(a.Position, b.Position))
	})
	return ranked
}

// group is the jobs of a queue that share out turns.
type group struct {
	queue      string
	guaranteed bool
}

// takeTurns ranks the jobs of a group; before is how many of the queue go before them.
func takeTurns(jobs []Job, keys []float64, members []int, before int) []Ranked {
	turns := make([]float64, len(members))
	for i, index := range members {
		turns[i] = keys[index]
	}
	slices.Sort(turns)
	slices.SortFunc(members, func(a, b int) int {
		x, y := &jobs[a], &jobs[b]
		return cmp.Or(-cmp.Compare(x.Priority, y.Priority), cmp.Compare(keys[a], keys[b]), x.Submitted.Compare(y.Submitted), cmp.Compare(x.Key, y.Key))
	})
	ranked := make([]Ranked, len(members))
	for i, index := range members {
		ranked[i] = Ranked{Index: index, Turn: turns[i], Position: before + i}
	}
	return ranked
}

func guaranteedFirst(a, b *Job) int {
	switch {
	case a.Guaranteed == b.Guaranteed:
		return 0
	case a.Guaranteed:
		return -1
	default:
		return 1
	}
}
