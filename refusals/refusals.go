// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package refusals knows which tasks have objects that can't be created, because the API server does not
// accept them or their GPUQueue does not accept the task: it says why, and when they are tried again. What a
// node refuses, after a Pod was bound to it, is none of its business: that is counted by pkg/gputask.
package refusals

import (
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/plural"
)

const (
	// FirstRetry and lastRetry bound the waiting time before refused objects are tried again. It doubles
	// with every refusal.
	FirstRetry = time.Second
	lastRetry  = time.Minute
	// queuedRetry is how long a task waits for those that try before it. It is woken when it is
	// its turn; this is in case those that try never do.
	queuedRetry = 5 * time.Minute
	// maxTrying bounds how many tasks with the same cause try at the same time.
	maxTrying = 64
	// minQueue is from what length on a queue is searched for tasks that have left.
	minQueue = 64
)

// Tasks are the tasks whose objects were refused, by cause. One task of each cause tries again; the others
// wait. If its objects are accepted, two others try, then four, and so on, until one is refused. It need
// not survive the process: the next attempt finds out again.
type Tasks struct {
	clock clock.PassiveClock
	// wake has a task handled after a delay.
	wake func(task cache.ObjectName, delay time.Duration)
	// classes lists the PriorityClasses; nil as long as they are not watched.
	classes schedulinglisters.PriorityClassLister

	mu      sync.Mutex
	byTask  map[cache.ObjectName]*refusedTask
	byCause map[cause]*refusedGroup
}

type refusedTask struct {
	uid     types.UID
	refusal gputask.Refusal
	group   *refusedGroup
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

// New returns no tasks yet. It has wake called when a task may try again, after a delay.
func New(clock clock.PassiveClock, wake func(task cache.ObjectName, delay time.Duration)) *Tasks {
	return &Tasks{clock: clock, wake: wake, byTask: map[cache.ObjectName]*refusedTask{}, byCause: map[cause]*refusedGroup{}}
}

// Refused remembers why an object of a task, which has Pods, was refused. Several refusals of one attempt
// are one. The text stays that of the first attempt while the cause is the same: it may have an identifier
// of the attempt.
func (t *Tasks) Refused(task *v1.GPUTask, pods []*corev1.Pod, refusal *gputask.Refusal) {
	why, told := causeOf(task, pods, refusal), *refusal
	if why.reason == reasonPriorityClassNotFound {
		told.Message += t.existingClasses()
	}
	t.add(cache.MetaObjectToName(task), task.UID, told, why)
}

// existingClasses ends the sentence that there is no such PriorityClass. Those of Kubernetes itself are not for tasks.
func (t *Tasks) existingClasses() string {
	if t.classes == nil {
		return ""
	}
	classes, err := t.classes.List(labels.Everything())
	var names []string
	for _, class := range classes {
		if !strings.HasPrefix(class.Name, "system-") {
			names = append(names, class.Name)
		}
	}
	if err != nil || len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; " + plural.ThereAre(names)
}

func (t *Tasks) add(key cache.ObjectName, uid types.UID, refusal gputask.Refusal, why cause) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now, backoff := t.clock.Now(), time.Duration(0)
	task := t.byTask[key]
	if task != nil && (task.uid != uid || task.group.cause != why) {
		if task.uid == uid {
			backoff = task.group.backoff // causes that alternate are no reason to try more often
		}
		t.remove(key, task)
		task = nil
	}
	switch {
	case task == nil:
		task = &refusedTask{uid: uid, refusal: refusal, group: t.groupOf(why, backoff)}
		task.group.size++
		t.byTask[key] = task
	case !task.group.trying.Has(key), task.group.next.After(now):
		return // another one of the same attempt
	default:
		task.group.trying.Delete(key)
		if why.demand.quota != "" {
			task.refusal = refusal // somebody has changed the quota
		}
	}
	task.group.queue = append(task.group.queue, key)
	task.group.retreat(now)
	t.advance(task.group)
}

func (t *Tasks) groupOf(why cause, backoff time.Duration) *refusedGroup {
	group := t.byCause[why]
	if group == nil {
		group = &refusedGroup{cause: why, trying: sets.New[cache.ObjectName](), backoff: backoff}
		t.byCause[why] = group
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
		g.woken, g.patience = false, min(max(2*g.patience, FirstRetry), lastRetry)
		g.backoff = g.patience / 2
	}
	g.backoff = max(min(2*g.backoff, lastRetry), FirstRetry)
	g.window, g.refused, g.next = 1, now, now.Add(wait.Jitter(g.backoff/2, 1))
	for len(g.trying) > g.window {
		key, _ := g.trying.PopAny()
		g.queue = append(g.queue, key)
	}
}

// Accepted records that all objects of a task were created, and reports whether any were refused before.
func (t *Tasks) Accepted(key cache.ObjectName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	task := t.byTask[key]
	if task == nil {
		return false
	}
	group := task.group
	group.window = min(2*group.window, maxTrying)
	group.backoff, group.patience, group.woken, group.next = 0, 0, false, t.clock.Now()
	t.remove(key, task)
	return true
}

// Forget removes a task that creates nothing any more, and reports whether it was refused.
func (t *Tasks) Forget(key cache.ObjectName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	task := t.byTask[key]
	if task != nil {
		t.remove(key, task)
	}
	return task != nil
}

// changed lets tasks try again whose cause has changed, when the change has taken effect after a
// while.
func (t *Tasks) changed(has func(*cause) bool, effect time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	for _, group := range t.byCause {
		if !has(&group.cause) {
			continue
		}
		next := now.Add(effect)
		if earliest := group.refused.Add(group.patience); earliest.After(next) {
			next = earliest
		}
		if next.Before(group.next) {
			group.next, group.woken = next, true
			t.advance(group)
		}
	}
}

// Of returns why objects of a task were refused, nil if they were not, and when to try again. A task that
// was recreated under the same name starts without a refusal.
func (t *Tasks) Of(task *v1.GPUTask) *gputask.Refusal {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := cache.MetaObjectToName(task)
	known := t.byTask[key]
	if known == nil || known.uid != task.UID {
		return nil
	}
	refusal, now := known.refusal, t.clock.Now()
	if late := known.group.next.Add(lastRetry); now.After(late) {
		known.group.trying.Insert(key) // those that should try don't
	}
	refusal.Retry = now.Add(queuedRetry)
	if known.group.trying.Has(key) {
		refusal.Retry = known.group.next
	}
	return &refusal
}

func (t *Tasks) remove(key cache.ObjectName, task *refusedTask) {
	delete(t.byTask, key)
	group := task.group
	group.size--
	group.trying.Delete(key)
	if group.size == 0 {
		delete(t.byCause, group.cause)
		return
	}
	if len(group.queue) > 2*group.size+minQueue {
		t.compact(group)
	}
	t.advance(group)
}

// compact drops from the queue of a group those that have left, and all but the first place of each other one.
func (t *Tasks) compact(group *refusedGroup) {
	seen := sets.New[cache.ObjectName]()
	group.queue = slices.DeleteFunc(group.queue, func(key cache.ObjectName) bool {
		task := t.byTask[key]
		left := task == nil || task.group != group || seen.Has(key)
		seen.Insert(key)
		return left
	})
}

// advance lets as many tasks of a group try as the window allows, and wakes them when they may.
func (t *Tasks) advance(group *refusedGroup) {
	for len(group.trying) < group.window && len(group.queue) > 0 {
		key := group.queue[0]
		group.queue = group.queue[1:]
		if task := t.byTask[key]; task != nil && task.group == group {
			group.trying.Insert(key)
		}
	}
	delay := max(group.next.Sub(t.clock.Now()), 0)
	for key := range group.trying {
		t.wake(key, delay)
	}
}
