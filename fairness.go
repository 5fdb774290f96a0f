// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// minRetryDelay and maxRetryDelay bound the backoff after an API error, which doubles
// with every retry.
const (
	minRetryDelay = 5 * time.Millisecond
	maxRetryDelay = time.Minute
)

// newTaskQueue returns the queue of tasks to handle.
func newTaskQueue(clock clock.WithTicker) workqueue.TypedRateLimitingInterface[cache.ObjectName] {
	const name = "gputasks"
	fair := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{Name: name, Clock: clock, Queue: &fairQueue{byNamespace: map[string][]cache.ObjectName{}}})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[cache.ObjectName]{Name: name, Clock: clock, Queue: fair})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](minRetryDelay, maxRetryDelay),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: name, Clock: clock, DelayingQueue: delaying})
}

// fairQueue is the order in which tasks are handled: namespaces take turns, so that a task does not wait for all those
// of another tenant. It is used by one goroutine at a time.
type fairQueue struct {
	// byNamespace are the tasks of those namespaces that have any, in the order in which they came.
	byNamespace map[string][]cache.ObjectName
	// next are these namespaces, the one whose turn it is first.
	next   []string
	length int
}

var _ workqueue.Queue[cache.ObjectName] = &fairQueue{}

// Touch implements workqueue.Queue.
func (q *fairQueue) Touch(cache.ObjectName) {}

// Push implements workqueue.Queue.
func (q *fairQueue) Push(task cache.ObjectName) {
	waiting := q.byNamespace[task.Namespace]
	if len(waiting) == 0 {
		q.next = append(q.next, task.Namespace)
	}
	q.byNamespace[task.Namespace] = append(waiting, task)
	q.length++
}

// Len implements workqueue.Queue.
func (q *fairQueue) Len() int { return q.length }

// Pop implements workqueue.Queue.
func (q *fairQueue) Pop() cache.ObjectName {
	namespace := q.next[0]
	q.next = q.next[1:]
	task, rest := q.byNamespace[namespace][0], q.byNamespace[namespace][1:]
	if len(rest) == 0 {
		delete(q.byNamespace, namespace)
	} else {
		q.byNamespace[namespace] = rest
		q.next = append(q.next, namespace)
	}
	q.length--
	return task
}

const (
	// turnLength is how long one sync of a task goes on writing while other tasks wait for a worker.
	turnLength = 250 * time.Millisecond
	// parallelWrites bounds the concurrent requests of all syncs together, beside the one that each of them
	// may always make. An API server whose store batches its commits is faster with many at once.
	parallelWrites = 64
)

// turn is the share of one sync in what the controller writes. A large task takes many turns, so that it does not keep
// the workers and the API server from the others.
type turn struct {
	// lanes has an element for each parallel request of all syncs.
	lanes chan struct{}
	// othersWait reports whether other tasks wait for a worker.
	othersWait func() bool
	now        func() time.Time
	ends       time.Time
	// begun is true once something was written: each turn gets a task further. unfinished is true if the turn was over
	// before everything was written.
	begun, unfinished bool
}

func newTurn(lanes chan struct{}, othersWait func() bool, now func() time.Time) *turn {
	return &turn{lanes: lanes, othersWait: othersWait, now: now, ends: now().Add(turnLength)}
}

// mayWrite reports whether the turn is not over yet.
func (t *turn) mayWrite() bool {
	t.unfinished = t.unfinished || t.begun && t.now().After(t.ends) && t.othersWait()
	t.begun = true
	return !t.unfinished
}

// inParallel calls do for every item, until the turn is over, and returns all errors. It runs as many calls at the same
// time as there are free lanes, and one more.
func inParallel[T any](t *turn, items []T, do func(T) error) error {
	var parallel sync.WaitGroup
	errs := make([]error, len(items))
	for i, item := range items {
		if !t.mayWrite() {
			break
		}
		select {
		case t.lanes <- struct{}{}:
			parallel.Go(func() {
				defer func() { <-t.lanes }()
				errs[i] = do(item)
			})
		default:
			errs[i] = do(item)
		}
	}
	parallel.Wait()
	return errors.Join(errs...)
}
