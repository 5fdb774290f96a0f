// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"math"
	"slices"
	"sync"
	"time"

	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/scheduler/config"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

const (
	// orderPeriod is how often the order of the waiting groups is made anew, and orderShare
	// bounds the part of the time that this takes.
	orderPeriod = 500 * time.Millisecond
	orderShare  = 20
)

// order is the waiting groups in the order in which they are served.
type order struct {
	mu      sync.Mutex
	entries []Place
	places  map[string]int // in entries, by key
	// candidates are those of the entries that may get bookings.
	candidates []Place
	// changes counts how often there were other candidates.
	changes uint64
	dueAt   time.Time
}

// Place is a waiting group's place in the line.
type Place struct {
	gangs.Waiting
	queue string
	// position is how many groups of its queue are served before it.
	position int
	// turn is when its turn comes, as in queueing.Ranked, and before all turns if it is guaranteed.
	turn    float64
	runtime queueing.Runtime
}

// of returns the place of a group.
func (o *order) of(group string) (place Place, waits bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	index, waits := o.places[group]
	if !waits {
		return Place{}, false
	}
	return o.entries[index], true
}

// isGuaranteed reports whether a group waits for what its queue is guaranteed.
func (o *order) isGuaranteed(group string) bool {
	place, waits := o.of(group)
	return waits && math.IsInf(place.turn, -1)
}

// first returns the groups that are served first. The slice must not be changed.
func (o *order) first() []Place {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.entries
}

// bookable returns the groups that may get bookings. The slice must not be changed.
func (o *order) bookable() []Place {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.candidates
}

func (o *order) set(entries, candidates []Place, dueAt time.Time) {
	places := make(map[string]int, len(entries))
	for i := range entries {
		places[entries[i].Key] = i
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.EqualFunc(o.candidates, candidates, func(a, b Place) bool { return a.Key == b.Key }) {
		o.changes++
	}
	o.entries, o.candidates, o.places, o.dueAt = entries, candidates, places, dueAt
}

// version returns a number that changes whenever there are other candidates for bookings.
func (o *order) version() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changes
}

func (o *order) due(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !now.Before(o.dueAt)
}

// OrderIfDue orders the waiting groups from time to time.
func (l *Line) OrderIfDue() {
	if l.order.due(l.Clock.Now()) {
		l.Order()
	}
}

// Order orders the waiting groups.
func (l *Line) Order() {
	began := l.Clock.Now()
	l.readQueues()
	state := l.State()
	entries := l.inOrder(state, l.Registry.Waiting())
	l.core.Do(l.Registry.SetTurns(turnsOf(state, entries)))
	ended := l.Clock.Now()
	l.order.set(entries, l.candidates(entries, began), ended.Add(max(orderPeriod, orderShare*ended.Sub(began))))
}

// turnsOf returns the turns of groups in their order; nil without GPUQueues, when the order never changes and
// kube-scheduler's own queue keeps it.
func turnsOf(state *State, entries []Place) map[string]float64 {
	if !state.Tree().HasQueues() {
		return nil
	}
	turns := make(map[string]float64, len(entries))
	for i := range entries {
		turns[entries[i].Key] = float64(i + 1)
	}
	return turns
}

// inOrder returns groups in the order in which they are served.
func (l *Line) inOrder(state *State, waiting []gangs.Waiting) []Place {
	entries, jobs := make([]Place, 0, len(waiting)), make([]queueing.Job, 0, len(waiting))
	demands := make([]queueing.Amounts, 0, len(waiting))
	for _, group := range waiting {
		assigned := state.QueueOf(group.Leader)
		if assigned.Problem != nil {
			continue // it is not served
		}
		runtime := l.book.runtimeOf(state, assigned.Queue, group.Leader)
		entries = append(entries, Place{Waiting: group, queue: assigned.Queue, runtime: runtime})
		demands = append(demands, queueing.Amounts{gpuqueue.OnlyModel(group.Shape.Models): queueing.Amount(group.Percent)})
		jobs = append(jobs, queueing.Job{
			Key: group.Key, Queue: assigned.Queue, Priority: group.Priority, Submitted: group.Since,
			GPUs: float64(group.Percent) / placement.Card, Runtime: runtime,
		})
	}
	ranked := l.optionsFor(state).Serve(jobs, demands, state.Factors(), l.ledgerOf(state))
	ordered := make([]Place, len(ranked))
	for i, one := range ranked {
		ordered[i] = entries[one.Index]
		ordered[i].position, ordered[i].turn = one.Position, one.Turn
		if one.Guaranteed {
			ordered[i].turn = math.Inf(-1)
		}
	}
	return ordered
}

// optionsFor returns the order between queues. Without GPUQueues, priority and age decide.
func (l *Line) optionsFor(state *State) queueing.Options {
	if !state.Tree().HasQueues() {
		return queueing.Options{Policy: queueing.FIFO}
	}
	return queueing.Options{Policy: queueing.Policy(l.Args.QueuePolicy), MaxOvertake: config.Seconds(l.Args.QueueMaxOvertakeSeconds)}
}
