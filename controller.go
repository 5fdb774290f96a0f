// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/expectations"
	"falldio.github.io/gpu-controller/pkg/gputask"
	"falldio.github.io/gpu-controller/refusals"
)

const (
	// syncTimeout bounds one sync of a task, which normally ends with its turn. It is shorter than the
	// grace period of a Pod, 30 seconds, so that a controller that has to stop completes the syncs in
	// progress and releases its lease.
	syncTimeout = 20 * time.Second
	// maxRequeue is how long a task waits in the queue at most: it stays there until then even if it is
	// deleted.
	maxRequeue = time.Hour
	// podEventBatch is how long changes of a task's Pods are batched before the task is
	// reconciled: the Pods of a gang start within moments of each other.
	podEventBatch = 100 * time.Millisecond
)

// Controller turns GPUTasks into Pods. It gathers the input of gputask.Decide and applies
// the plan that it returns; all decisions are made there.
type Controller struct {
	*dependencies
	config  gputask.Config
	workers int

	// synced report whether the event handlers have processed the initial lists.
	synced []cache.InformerSynced
	// working is true while the workers run. Nothing drains the queue of a standby, so a
	// standby must not fill it.
	working atomic.Bool
	queue   workqueue.TypedRateLimitingInterface[cache.ObjectName]
	// lanes has an element for each parallel request of all syncs.
	lanes chan struct{}
	// expectations track the writes to tasks and their Pods, by task.
	expectations *expectations.Expectations[cache.ObjectName]
	refusals     *refusals.Tasks
	uncounted    *uncountedPods
	cycles       *cycleFinder
	statuses     *statusWriter
	pods         *podWriter
}

// newController returns a controller without event handlers: see watch.
func newController(deps *dependencies, opts *options) *Controller {
	c := &Controller{
		dependencies: deps,
		config:       opts.taskConfig(),
		workers:      opts.workers,
		queue:        newTaskQueue(deps.clock),
		lanes:        make(chan struct{}, parallelWrites),
		expectations: expectations.New[cache.ObjectName](deps.clock),
		uncounted:    newUncountedPods(),
	}
	c.refusals = refusals.New(deps.clock, c.enqueueAfter)
	c.cycles = &cycleFinder{dependencies: deps, enqueue: c.enqueue, dirty: true}
	debouncer := &statusDebouncer{clock: deps.clock, byTask: map[cache.ObjectName]*pendingStatus{}}
	c.statuses = &statusWriter{dependencies: deps, expectations: c.expectations, debouncer: debouncer, requeue: c.queue.AddAfter}
	c.pods = &podWriter{dependencies: deps, expectations: c.expectations, refusals: c.refusals, uncounted: c.uncounted}
	return c
}

// Run handles tasks until ctx ends and every task in progress is done.
func (c *Controller) Run(ctx context.Context) {
	logger := klog.FromContext(ctx)
	logger.Info("Starting workers", "workers", c.workers)
	c.takeOver()
	var workers sync.WaitGroup
	for range c.workers {
		workers.Go(func() { wait.UntilWithContext(ctx, c.runWorker, time.Second) })
	}
	workers.Go(func() { c.cycles.run(ctx) })
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

// runWorker handles one task after the other.
func (c *Controller) runWorker(ctx context.Context) {
	for c.processNextWorkItem(ctx) {
	}
}

// processNextWorkItem handles the next task in the queue. It returns false when the controller must stop.
func (c *Controller) processNextWorkItem(ctx context.Context) bool {
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
	err := c.syncHandler(working, key)
	c.metrics.observeSync(c.clock.Since(begin), err)
	if err != nil {
		logger.V(apierror.LogLevel(err)).Info("Handling the GPUTask failed, trying again later", "err", err)
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	return true
}

// syncHandler reconciles one task: gather, decide, apply. After an error it is to be retried.
func (c *Controller) syncHandler(ctx context.Context, key cache.ObjectName) error {
	task, err := c.tasks.GPUTasks(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.expectations.Forget(key)
		c.refusals.Forget(key)
		c.statuses.debouncer.forget(key)
		return nil
	}
	if err != nil {
		return err
	}
	if wait := c.expectations.Pending(key); wait > 0 {
		// The caches don't show the writes of the last sync yet. Their events requeue the
		// task; the delay is in case one is lost.
		c.queue.AddAfter(key, wait)
		return nil
	}
	pods := c.uncounted.among(task, c.podsOf(task))
	admission, known, err := c.admissions.Admission(task, pods)
	if err != nil || !known { // the task is enqueued again when it is known
		return err
	}
	input := c.gather(ctx, key, task, pods)
	input.Admission = admission
	input.Gone = c.uncounted.goneOf(task)
	plan, err := gputask.Decide(input)
	if err != nil {
		return fmt.Errorf("deciding: %w", err)
	}
	if err := c.apply(ctx, key, task, input.Gone, plan); err != nil {
		return err
	}
	// Pods that were just created hold quota even if Kueue has changed its mind meanwhile.
	return c.admissions.Report(ctx, task, &plan, pods)
}

func (c *Controller) gather(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, pods []*corev1.Pod) gputask.Input {
	return gputask.Input{
		Task:       task,
		Pods:       pods,
		NotReady:   c.notReady(ctx, pods),
		OtherNodes: func(pod *corev1.Pod, than []string) bool { return c.otherNodes(ctx, pod, than) },
		EvictedFor: func(pod *corev1.Pod) v1.InterruptionReason { return c.evictedFor(ctx, task.UID, pod) },
		HasService: c.hasService(task),
		Lookup: func(name string) *v1.GPUTask {
			other, err := c.tasks.GPUTasks(key.Namespace).Get(name)
			if err != nil {
				return nil // a lister's only error is not found
			}
			return other
		},
		Cycle:                c.cycles.of(key),
		HasWaitingDependents: len(c.waitingDependents(key)) > 0,
		Refusal:              c.refusals.Of(task),
		QueueRuntime:         c.queueRuntime(pods),
		Now:                  c.clock.Now(),
		Config:               c.config,
	}
}

// apply carries out a plan, the status first: it records which failures are counted, and
// its write fails if the plan was made from a stale task.
func (c *Controller) apply(ctx context.Context, key cache.ObjectName, task *v1.GPUTask, gone []*corev1.Pod, plan gputask.Plan) error {
	if exists, err := c.statuses.updateStatus(ctx, key, task, &plan); err != nil || !exists {
		return err
	}
	c.uncounted.counted(task, gone)
	if plan.DeleteTask {
		return c.deleteTask(ctx, task)
	}
	turn := newTurn(c.lanes, func() bool { return c.queue.Len() > 0 }, c.clock.Now)
	if err := c.pods.createService(ctx, key, task, plan.CreateService); err != nil {
		return errors.Join(err, c.pods.deletePods(ctx, turn, plan.Delete))
	}
	err := errors.Join(
		c.pods.deletePods(ctx, turn, plan.Delete),
		c.pods.forceDelete(ctx, turn, task, plan.ForceDelete),
		c.pods.createPods(ctx, turn, key, task, &plan),
		c.pods.patchMinAvailable(ctx, turn, plan.Discount, plan.MinAvailable),
		c.pods.confirmCheckpoints(ctx, turn, plan.Confirm, plan.LastCheckpoint),
		c.pods.declareRuntimes(ctx, turn, plan.Declare),
	)
	if err == nil && turn.unfinished {
		c.queue.AddAfter(key, podEventBatch)
		return nil
	}
	if err == nil && !plan.AwaitsRetry && c.pods.accepted(key, &plan) {
		c.queue.AddAfter(key, podEventBatch) // so that the status drops it too
	}
	if err == nil && plan.RequeueAfter > 0 {
		c.queue.AddAfter(key, min(plan.RequeueAfter, maxRequeue))
	}
	return err
}

func (c *Controller) deleteTask(ctx context.Context, task *v1.GPUTask) error {
	background := metav1.DeletePropagationBackground
	err := c.clients.tasks.FalldioV1().GPUTasks(task.Namespace).Delete(ctx, task.Name, metav1.DeleteOptions{
		Preconditions:     metav1.NewUIDPreconditions(string(task.UID)),
		PropagationPolicy: &background,
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the finished task: %w", err)
	}
	ttl := cmp.Or(task.Spec.TTLSecondsAfterFinished, c.config.TTLSecondsAfterFinished)
	klog.FromContext(ctx).Info("Deleted the finished task", "ttlSecondsAfterFinished", ptr.Deref(ttl, 0))
	return nil
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
