// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/expectations"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

const (
	// firstRetry and lastRetry bound the waiting time after an API error,
	// which doubles from one try to the next.
	firstRetry = 5 * time.Millisecond
	lastRetry  = time.Minute
	// syncTimeout bounds the handling of one task. A gang that needs longer to
	// be created goes on in its next turn.
	syncTimeout = time.Minute
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

func newController(ctx context.Context, with dependencies, opts *options) (*Controller, error) {
	c := &Controller{
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
	return c, errors.Join(c.watchTasks(ctx), c.watchPods(ctx))
}

// work handles tasks until ctx ends and every task in hand is done.
func (c *Controller) work(ctx context.Context) {
	logger := klog.FromContext(ctx)
	logger.Info("Working", "workers", c.workers)
	c.takeOver()
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() { wait.UntilWithContext(ctx, c.handleTasks, time.Second) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
	logger.Info("Stopped working")
}

// takeOver begins to listen to changes and queues every task: what happened
// before is only in the caches.
func (c *Controller) takeOver() {
	c.working.Store(true)
	for _, object := range c.taskIndex.List() {
		if task, ok := object.(*v1.GPUTask); ok {
			c.enqueue(cache.MetaObjectToName(task))
		}
	}
}

func (c *Controller) handleTasks(ctx context.Context) {
	for c.handleNextTask(ctx) {
	}
}

// handleNextTask waits for a task and handles it. It returns false when the
// controller has to stop.
func (c *Controller) handleNextTask(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if ctx.Err() != nil {
		return false // the queue hands out the rest even now; the next leader finds it again
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "gputask", key.String())
	// A task that has been begun is finished even if the controller is told to
	// stop, but not for ever.
	working, cancel := context.WithTimeout(klog.NewContext(context.WithoutCancel(ctx), logger), syncTimeout)
	defer cancel()
	begin := c.clock.Now()
	err := c.syncTask(working, key)
	c.metrics.observeSync(c.clock.Since(begin), err)
	if err != nil {
		logger.V(apierror.LogLevel(err)).Info("Trying again later", "err", err)
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	return true
}
