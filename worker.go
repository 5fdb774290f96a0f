// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// syncTimeout bounds one sync of a task, which normally ends with its turn. It is shorter than the grace period of a Pod, 30 seconds, so that a controller
// that has to stop completes the syncs in progress and releases its lease.
const syncTimeout = 20 * time.Second

// work handles tasks until ctx ends and every task in progress is done.
func (c *Controller) work(ctx context.Context) {
	logger := klog.FromContext(ctx)
	logger.Info("Starting workers", "workers", c.workers)
	c.takeOver()
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() { wait.UntilWithContext(ctx, c.handleTasks, time.Second) })
	}
	workers.Go(func() { c.findCycles(ctx) })
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
	logger.Info("All workers have stopped")
}

// takeOver begins to accept events and enqueues every task: earlier events were dropped.
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

// handleNextTask handles the next task in the queue. It returns false when the controller
// must stop.
func (c *Controller) handleNextTask(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if ctx.Err() != nil {
		return false // a queue that shuts down still returns its items; the next leader enqueues them again
	}
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "gputask", key.String())
	// A sync in progress is completed even if ctx ends, within a timeout.
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
