// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/gputask"
)

const (
	// firstRetry and lastRetry bound the waiting time before Pods are tried again that the API
	// server has refused. It doubles with every refusal.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// queuedRetry is how long a task waits for those that try before it. It is woken when it is
	// its turn; this is in case those that try never do.
	queuedRetry = 5 * time.Minute
	// maxTrying bounds how many tasks with the same cause try at the same time.
	maxTrying = 64
	// minQueue is from what length on a queue is searched for tasks that have left.
	minQueue = 64
)

// refusedTasks are the tasks whose objects the API server has refused, by cause. One task of each
// cause tries again; the others wait. If the API server accepts its objects, two others try, then
// four, and so on, until one is refused. It need not survive the process: the next attempt finds
// out again.
type refusedTasks struct {
	clock clock.PassiveClock
	// wake has a task handled after a delay.
	wake func(task cache.ObjectName, delay time.Duration)

	mu      sync.Mutex
	byTask  map[cache.ObjectName]*refusedTask
	byCause map[cause]*refusedGroup
}

type refusedTask struct {
	uid      types.UID
	obstacle gputask.Obstacle
	group    *refusedGroup
}

// refusedGroup is the tasks with the same cause.
type refusedGroup struct {
	cause cause
	size  int
	// trying are the tasks that may try again, from next on. There are at most window of them.
	trying sets.Set[cache.ObjectName]
	window int
	next   time.Time
	// queue are the other tasks, in the order in which they were refused, and some that have left.
	queue   []cache.ObjectName
	backoff time.Duration
	// woken is true if the next attempt is due because the cause has changed. If it is refused all
	// the same, the one after that waits for patience: the API server may not know of the change
	// yet, but things may also change all the time, and the attempt itself may change them.
	woken    bool
	patience time.Duration
	refused  time.Time
}

func newRefusedTasks(clock clock.PassiveClock, wake func(cache.ObjectName, time.Duration)) *refusedTasks {
	return &refusedTasks{clock: clock, wake: wake, byTask: map[cache.ObjectName]*refusedTask{}, byCause: map[cause]*refusedGroup{}}
}

// set records that an object of a task was refused. Several refusals of one attempt are one. The
// obstacle's text stays that of the first attempt while the cause is the same: it may have an identifier
// of the attempt.
func (r *refusedTasks) set(key cache.ObjectName, uid types.UID, obstacle gputask.Obstacle, why cause) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, backoff := r.clock.Now(), time.Duration(0)
	task := r.byTask[key]
	if task != nil && (task.uid != uid || task.group.cause != why) {
		if task.uid == uid {
			backoff = task.group.backoff // causes that alternate are no reason to try more often
		}
		r.remove(key, task)
		task = nil
	}
	switch {
	case task == nil:
		task = &refusedTask{uid: uid, obstacle: obstacle, group: r.groupOf(why, backoff)}
		task.group.size++
		r.byTask[key] = task
	case !task.group.trying.Has(key), task.group.next.After(now):
		return // another one of the same attempt
	default:
		task.group.trying.Delete(key)
		if why.demand.quota != "" {
			task.obstacle = obstacle // somebody has changed the quota
		}
	}
	task.group.queue = append(task.group.queue, key)
	task.group.retreat(now)
	r.advance(task.group)
}

func (r *refusedTasks) groupOf(why cause, backoff time.Duration) *refusedGroup {
	group := r.byCause[why]
	if group == nil {
		group = &refusedGroup{cause: why, trying: sets.New[cache.ObjectName](), backoff: backoff}
		r.byCause[why] = group
	}
	return group
}

// retreat lets a single task try again, after a longer time than before. The time is chosen at
// random within half the backoff, so that causes which arose together, such as those of two gangs
// of different sizes, are not tried together.
func (g *refusedGroup) retreat(now time.Time) {
	if g.next.After(now) {
		return // of several attempts at the same time, one counts
	}
	if g.woken {
		g.woken, g.patience = false, min(max(2*g.patience, firstRetry), lastRetry)
		g.backoff = g.patience / 2
	}
	g.backoff = max(min(2*g.backoff, lastRetry), firstRetry)
	g.window, g.refused, g.next = 1, now, now.Add(wait.Jitter(g.backoff/2, 1))
	for len(g.trying) > g.window {
		key, _ := g.trying.PopAny()
		g.queue = append(g.queue, key)
	}
}

// pass records that the API server has accepted all objects of a task, and reports whether it had
// refused them before.
func (r *refusedTasks) pass(key cache.ObjectName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	task := r.byTask[key]
	if task == nil {
		return false
	}
	group := task.group
	group.window = min(2*group.window, maxTrying)
	group.backoff, group.patience, group.woken, group.next = 0, 0, false, r.clock.Now()
	r.remove(key, task)
	return true
}

// clear removes a task that creates nothing any more, and reports whether it was refused.
func (r *refusedTasks) clear(key cache.ObjectName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	task := r.byTask[key]
	if task != nil {
		r.remove(key, task)
	}
	return task != nil
}

// changed lets tasks try again whose cause has changed, when the change has taken effect after a
// while.
func (r *refusedTasks) changed(has func(*cause) bool, effect time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	for _, group := range r.byCause {
		if !has(&group.cause) {
			continue
		}
		next := now.Add(effect)
		if earliest := group.refused.Add(group.patience); earliest.After(next) {
			next = earliest
		}
		if next.Before(group.next) {
			group.next, group.woken = next, true
			r.advance(group)
		}
	}
}

// get returns the obstacle of a task, nil if there is none. A task that was recreated under the
// same name starts without one.
func (r *refusedTasks) get(key cache.ObjectName, uid types.UID) *gputask.Obstacle {
	r.mu.Lock()
	defer r.mu.Unlock()
	task := r.byTask[key]
	if task == nil || task.uid != uid {
		return nil
	}
	obstacle, now := task.obstacle, r.clock.Now()
	if late := task.group.next.Add(lastRetry); now.After(late) {
		task.group.trying.Insert(key) // those that should try don't
	}
	obstacle.Retry = now.Add(queuedRetry)
	if task.group.trying.Has(key) {
		obstacle.Retry = task.group.next
	}
	return &obstacle
}

func (r *refusedTasks) remove(key cache.ObjectName, task *refusedTask) {
	delete(r.byTask, key)
	group := task.group
	group.size--
	group.trying.Delete(key)
	if group.size == 0 {
		delete(r.byCause, group.cause)
		return
	}
	if len(group.queue) > 2*group.size+minQueue {
		r.compact(group)
	}
	r.advance(group)
}

// compact drops from the queue of a group those that have left, and all but the first place of each other one.
func (r *refusedTasks) compact(group *refusedGroup) {
	seen := sets.New[cache.ObjectName]()
	group.queue = slices.DeleteFunc(group.queue, func(key cache.ObjectName) bool {
		task := r.byTask[key]
		left := task == nil || task.group != group || seen.Has(key)
		seen.Insert(key)
		return left
	})
}

// advance lets as many tasks of a group try as the window allows, and wakes them when they may.
func (r *refusedTasks) advance(group *refusedGroup) {
	for len(group.trying) < group.window && len(group.queue) > 0 {
		key := group.queue[0]
		group.queue = group.queue[1:]
		if task := r.byTask[key]; task != nil && task.group == group {
			group.trying.Insert(key)
		}
	}
	delay := max(group.next.Sub(r.clock.Now()), 0)
	for key := range group.trying {
		r.wake(key, delay)
	}
}
