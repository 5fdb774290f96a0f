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
	// outside are the groups that wait and are not served: they would never fit, or may not use their queues.
	outside []gangs.Waiting
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
	// position is how many groups of its queue are served before it, of those that wait for room or for the queue.
	position int
	// turn is when its turn comes, as in queueing.Ranked, and before all turns if it is guaranteed.
	turn    float64
	runtime queueing.Runtime
}

// isBookable reports whether a group has been tried and found no room, and waits for nothing else. Only these can have
// bookings and estimates.
func (p *Place) isBookable() bool { return p.Tried && p.Awaits <= gangs.AwaitsNodes }

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

// notServed returns the groups that wait and are not in the order. The slice must not be changed.
func (o *order) notServed() []gangs.Waiting {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.outside
}

// bookable returns the groups that may get bookings. The slice must not be changed.
func (o *order) bookable() []Place {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.candidates
}

func (o *order) set(entries, candidates []Place, waiting []gangs.Waiting, dueAt time.Time) {
	places := make(map[string]int, len(entries))
	for i := range entries {
		places[entries[i].Key] = i
	}
	outside := slices.DeleteFunc(waiting, func(group gangs.Waiting) bool { _, served := places[group.Key]; return served })
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.EqualFunc(o.candidates, candidates, func(a, b Place) bool { return a.Key == b.Key }) {
		o.changes++
	}
	o.entries, o.candidates, o.places, o.outside, o.dueAt = entries, candidates, places, outside, dueAt
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
	state, waiting := l.State(), l.Registry.Waiting()
	entries := l.inOrder(state, runnable(waiting))
	l.core.Do(l.Registry.SetTurns(l.turnsOf(state, entries, waiting)))
	ended := l.Clock.Now()
	l.order.set(entries, l.candidates(entries, began), waiting, ended.Add(max(orderPeriod, orderShare*ended.Sub(began))))
}

// runnable returns the groups that may fit. One that would not even if nothing else ran takes no turn from others, and
// nobody waits for it.
func runnable(waiting []gangs.Waiting) []gangs.Waiting {
	return slices.DeleteFunc(slices.Clone(waiting), func(group gangs.Waiting) bool { return group.Never })
}

// turnsOf returns the turns of groups that wait, of which entries are in the order; nil without GPUQueues, when the
// order never changes and kube-scheduler's own queue keeps it. Those that never fit are only tried when a node has
// changed. Then each has the turn that it would have otherwise, right after those before it: they must not have
// taken the node before it is in the order again.
func (l *Line) turnsOf(state *State, entries []Place, waiting []gangs.Waiting) map[string]float64 {
	if !state.Tree().HasQueues() {
		return nil
	}
	turns := make(map[string]float64, len(entries))
	for i := range entries {
		turns[entries[i].Key] = float64(i + 1)
	}
	if !slices.ContainsFunc(waiting, func(group gangs.Waiting) bool { return group.Never }) {
		return turns
	}
	before := 0
	for _, place := range l.inOrder(state, waiting) {
		if place.Never {
			turns[place.Key] = float64(before) + 0.5
		} else {
			before++
		}
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
	ordered, ahead := make([]Place, len(ranked)), map[string]int{}
	for i, one := range ranked {
		place := &ordered[i]
		*place = entries[one.Index]
		place.position, place.turn = ahead[place.queue], one.Turn
		if place.Awaits != gangs.AwaitsOther { // nobody waits for it
			ahead[place.queue]++
		}
		if one.Guaranteed {
			place.turn = math.Inf(-1)
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
