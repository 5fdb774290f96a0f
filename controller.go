// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	taskscheme "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/scheme"
	taskinformers "falldio.github.io/gpu-controller/pkg/generated/informers/externalversions"
	tasklisters "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gputask"
)

const (
	// resyncPeriod is how often every task is looked at without a cause.
	resyncPeriod = 10 * time.Minute
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
	clients  clients
	clock    clock.WithTicker
	config   gputask.Config
	workers  int
	recorder record.EventRecorder
	metrics  *controllerMetrics

	taskInformers taskinformers.SharedInformerFactory
	coreInformers informers.SharedInformerFactory
	tasks         tasklisters.GPUTaskLister
	taskIndex     cache.Indexer
	podIndex      cache.Indexer
	synced        []cache.InformerSynced
	ready         *atomic.Bool
	// working is true while the workers run. Without them nobody empties the
	// queue, so that a standby must not fill it.
	working *atomic.Bool

	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	unseen    *unseenWrites
	obstacles *obstacleMemory
	held      *heldProgress
	// rescheduler is nil if rescheduling is switched off.
	rescheduler *rescheduler
}

func newController(ctx context.Context, clients clients, clock clock.WithTicker, opts *options) (*Controller, error) {
	taskInformers := taskinformers.NewSharedInformerFactoryWithOptions(clients.tasks, resyncPeriod,
		taskinformers.WithNamespace(opts.namespace), taskinformers.WithTransform(withoutManagedFields))
	coreInformers := informers.NewSharedInformerFactoryWithOptions(clients.kube, 0,
		informers.WithNamespace(opts.namespace), informers.WithTransform(withoutManagedFields),
		informers.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.LabelSelector = labels.Set{v1.LabelApp: v1.LabelAppValue}.String()
		}))
	tasks := taskInformers.Falldio().V1().GPUTasks()
	pods := coreInformers.Core().V1().Pods()

	c := &Controller{
		clients:       clients,
		clock:         clock,
		config:        opts.tasks,
		workers:       opts.workers,
		taskInformers: taskInformers,
		coreInformers: coreInformers,
		tasks:         tasks.Lister(),
		taskIndex:     tasks.Informer().GetIndexer(),
		podIndex:      pods.Informer().GetIndexer(),
		ready:         &atomic.Bool{},
		working:       &atomic.Bool{},
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: "gputasks", Clock: clock}),
		unseen:    newUnseenWrites(clock),
		obstacles: newObstacleMemory(),
		held:      newHeldProgress(clock),
	}
	recorder, err := newRecorder(ctx, clients)
	if err != nil {
		return nil, err
	}
	c.recorder = recorder
	c.metrics = newMetrics(c.tasks)
	if err := errors.Join(c.watchTasks(ctx, tasks.Informer()), c.watchPods(ctx, pods.Informer())); err != nil {
		return nil, err
	}
	if opts.rescheduling.period > 0 {
		if c.rescheduler, err = newRescheduler(ctx, c, opts); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// newRecorder records events also while the controller stops, since the last
// tasks are still being handled then.
func newRecorder(ctx context.Context, clients clients) (record.EventRecorder, error) {
	types := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(types), taskscheme.AddToScheme(types)); err != nil {
		return nil, err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartStructuredLogging(4)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clients.kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(types, corev1.EventSource{Component: "gpu-controller"}), nil
}

// startInformers fills the caches. It returns false if ctx ends first.
func (c *Controller) startInformers(ctx context.Context) bool {
	c.taskInformers.StartWithContext(ctx)
	c.coreInformers.StartWithContext(ctx)
	if c.rescheduler != nil {
		c.rescheduler.informers.StartWithContext(ctx)
	}
	if !cache.WaitForNamedCacheSyncWithContext(ctx, c.synced...) {
		return false
	}
	if c.rescheduler != nil {
		c.rescheduler.hasCaches(ctx, c.rescheduler.patience) // it goes on waiting by itself
	}
	c.ready.Store(true)
	return true
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
	if c.rescheduler != nil {
		workers.Go(func() { c.rescheduler.run(ctx) })
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

// retryVerbosity keeps conflicts, which are normal, out of the log.
func retryVerbosity(err error) int {
	if apierrors.IsConflict(err) {
		return 4
	}
	return 0
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
		logger.V(retryVerbosity(err)).Info("Trying again later", "err", err)
		c.queue.AddRateLimited(key)
		return true
	}
	c.queue.Forget(key)
	return true
}
