// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/expectations"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

const (
	// minRetryDelay and maxRetryDelay bound the backoff after an API error, which doubles
	// with every retry.
	minRetryDelay = 5 * time.Millisecond
	maxRetryDelay = time.Minute
)

// Controller turns GPUTasks into Pods. It gathers the input of gputask.Decide and applies
// the plan that it returns; all decisions are made there.
type Controller struct {
	dependencies
	config  gputask.Config
	workers int

	// synced report whether the event handlers have processed the initial lists.
	synced []cache.InformerSynced
	// working is true while the workers run. Nothing drains the queue of a standby, so a
	// standby must not fill it.
	working *atomic.Bool
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// lanes has an element for each parallel request of all syncs.
	lanes chan struct{}
	// expectations track the writes to tasks and their Pods, by task.
	expectations *expectations.Expectations[cache.ObjectName]
	obstacles    *refusedTasks
	debouncer    *statusDebouncer
	cycles       *cycleFinder
	successes    *successes
	departures   *departures
}

// dependencies are what the controller needs.
type dependencies struct {
	*caches
	clients      clients
	recorder     record.EventRecorder
	metrics      *controllerMetrics
	rescheduling rescheduling
	admissions   admissions
	// queueTree returns the GPUQueues; nil if there are none, or they are not known.
	queueTree func() *queueing.Tree
	// queuesKnown reports whether it is known which GPUQueues there are.
	queuesKnown func() bool
	clock       clock.WithTicker
}

// newController returns a controller without event handlers: see watch.
func newController(with dependencies, opts *options) *Controller {
	c := &Controller{
		dependencies: with,
		config:       opts.taskConfig(),
		workers:      opts.workers,
		working:      &atomic.Bool{},
		queue:        newTaskQueue(with.clock),
		lanes:        make(chan struct{}, parallelWrites),
		expectations: expectations.New[cache.ObjectName](with.clock),
		debouncer:    newStatusDebouncer(with.clock),
		cycles:       newCycleFinder(),
		successes:    newSuccesses(),
		departures:   newDepartures(),
	}
	c.obstacles = newRefusedTasks(with.clock, c.enqueueAfter)
	return c
}

func (c *Controller) enqueue(task cache.ObjectName) {
	if c.working.Load() {
		c.queue.Add(task)
	}
}

func (c *Controller) enqueueAfter(task cache.ObjectName, delay time.Duration) {
	if c.working.Load() {
		c.queue.AddAfter(task, delay)
	}
}
