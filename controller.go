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
)

const (
	// firstRetry and lastRetry bound the waiting time after an API error,
	// which doubles from one try to the next.
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
)

// Controller turns GPUTasks into Pods. It gathers what gputask.Decide needs
// and applies what it decides; the decisions themselves are all in there.
type Controller struct {
	dependencies
	config  gputask.Config
	workers int

	// synced report whether the controller knows all that is in the caches.
	synced []cache.InformerSynced
	// working is true while the workers run. Without them nobody empties the
	// queue, so that a standby must not fill it.
	working *atomic.Bool
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// expectations are about the tasks and their Pods, by the tasks.
	expectations *expectations.Expectations[cache.ObjectName]
	obstacles    *obstacleMemory
	held         *heldProgress
}

// dependencies are what the controller works with.
type dependencies struct {
	*caches
	clients      clients
	recorder     record.EventRecorder
	metrics      *controllerMetrics
	rescheduling rescheduling
	clock        clock.WithTicker
}

// newController returns a controller that knows nothing until it watches.
func newController(with dependencies, opts *options) *Controller {
	return &Controller{
		dependencies: with,
		config:       opts.tasks,
		workers:      opts.workers,
		working:      &atomic.Bool{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "gputasks", Clock: with.clock}),
		expectations: expectations.New[cache.ObjectName](with.clock),
		obstacles:    newObstacleMemory(),
		held:         newHeldProgress(with.clock),
	}
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
