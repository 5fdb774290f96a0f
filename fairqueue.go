// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
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

// fairQueue is the order in which tasks are handled: namespaces take turns, so that a task does not wait for all those of another
// tenant. It is used by one goroutine at a time.
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
