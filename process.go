// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/queuewatch"
	"falldio.github.io/gpu-controller/rescheduler"
)

// queueSyncTimeout is how long the controller waits until it knows which GPUQueues there are: else
// it would create Pods that may not use their queue, which is only in vain. If permissions are
// missing, they are never known.
const queueSyncTimeout = 5 * time.Second

// reschedulerSyncTimeout is how long the controller waits for the cache of MovePlans: the
// first Pods that it replaces may be those of a plan. If the CRD is of a version
// without MovePlans, or permissions are missing, this cache never syncs.
const reschedulerSyncTimeout = 10 * time.Second

// process holds the parts of gpu-controller, which share caches.
type process struct {
	*dependencies
	controller *Controller
	queues     *queuewatch.Watcher
	gpuPods    *gpupods.Cache
	// rescheduler is nil if it is disabled.
	rescheduler *rescheduler.Rescheduler
	// parts are what runs while this process leads.
	parts []part
	// ready is true once the caches are synced.
	ready atomic.Bool
}

// part is what runs while this process leads, until ctx ends and its work in progress is done.
type part interface {
	Run(ctx context.Context)
}

// component is a part of gpu-controller beside the controller, with options of its own.
type component struct {
	options interface {
		// AddFlags adds the flags that set the options.
		AddFlags(flags *pflag.FlagSet)
		// Validate calls require with each condition and the error if it does not hold.
		Validate(require func(holds bool, format string, values ...any))
	}
	enabled bool
	build   func(*process, context.Context, *options) (part, error)
}

func newProcess(ctx context.Context, clients clients, recorder record.EventRecorder, clock clock.WithTicker, opts *options, components []component) (*process, error) {
	caches, err := newCaches(clients.kube, clients.tasks, opts.namespace)
	if err != nil {
		return nil, err
	}
	queues := queuewatch.New(clients.tasks, clock)
	p := &process{queues: queues, dependencies: &dependencies{
		caches:       caches,
		clients:      clients,
		recorder:     recorder,
		metrics:      newMetrics(caches.tasks, clock),
		rescheduling: noRescheduling{},
		queueTree:    queues.Tree,
		queuesKnown:  queues.Known,
		clock:        clock,
	}}
	if p.gpuPods, err = gpupods.New(ctx, gpupods.Dependencies{
		Kube:          clients.kube,
		NodeInformers: p.nodeInformers,
		TaskPods:      p.coreInformers.Core().V1().Pods(),
		Namespace:     opts.namespace,
		Clock:         clock,
	}); err != nil {
		return nil, err
	}
	p.admissions = newAdmissions(p.dependencies, opts, func(task cache.ObjectName) { p.controller.enqueue(task) }, func() { p.controller.enqueueInKueue() })
	p.parts = []part{p.gpuPods, p.admissions}
	for _, component := range components {
		if !component.enabled {
			continue
		}
		part, err := component.build(p, ctx, opts)
		if err != nil {
			return nil, err
		}
		p.parts = append(p.parts, part)
	}
	p.controller = newController(p.dependencies, opts)
	p.parts = append(p.parts, p.controller)
	queues.OnChange(func(string) { p.controller.refusals.QueuesChanged() })
	return p, p.controller.watch(ctx)
}

// startInformers starts the informers and waits for their caches. It returns false if ctx
// ends first. The controller works without the cache of MovePlans, for which the
// rescheduler keeps waiting itself, as for what only the leader caches, and without GPUQueues.
func (p *process) startInformers(ctx context.Context, reschedulerTimeout time.Duration) bool {
	p.taskInformers.StartWithContext(ctx)
	p.coreInformers.StartWithContext(ctx)
	if !cache.WaitForNamedCacheSyncWithContext(ctx, p.controller.synced...) {
		return false
	}
	if !p.clients.unreadable.queues {
		go p.queues.Run(ctx)
		p.queues.WaitUntilKnown(ctx, queueSyncTimeout)
	}
	if p.rescheduler != nil {
		p.rescheduler.WaitForMovePlans(ctx, reschedulerTimeout)
	}
	p.ready.Store(true)
	return true
}

// work runs all parts until ctx ends and all work in progress is done.
func (p *process) work(ctx context.Context) {
	p.refusalInformers.StartWithContext(ctx)
	if !p.clients.unreadable.causes {
		p.clusterInformers.StartWithContext(ctx)
		p.awaitNamespaces(ctx)
	}
	var working sync.WaitGroup
	for _, part := range p.parts {
		working.Go(func() { part.Run(ctx) })
	}
	working.Wait()
}

// awaitNamespaces waits for the labels of namespaces, by which it is decided who may use a queue,
// if there are queues.
func (p *process) awaitNamespaces(ctx context.Context) {
	if p.queues.Tree() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, queueSyncTimeout)
	defer cancel()
	cache.WaitForCacheSync(ctx.Done(), p.clusterInformers.Core().V1().Namespaces().Informer().HasSynced)
}
