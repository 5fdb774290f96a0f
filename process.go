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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/accounting"
	"falldio.github.io/gpu-controller/admissioncheck"
	taskscheme "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/scheme"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queuewatch"
	"falldio.github.io/gpu-controller/queues"
	"falldio.github.io/gpu-controller/remediation"
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

// process holds the parts of gpu-controller, which share caches: the controller, what writes the
// status of GPUQueues and the usage of GPUs, what taints Nodes and, unless it is disabled, the
// rescheduler.
type process struct {
	*caches
	controller *Controller
	// rescheduler is nil if it is disabled.
	rescheduler *rescheduler.Rescheduler
	queues      *queuewatch.Watcher
	gpuPods     *gpupods.Cache
	// accountant, bookkeeper and remediator are nil in a controller of one namespace: queues, usage and Nodes are those of
	// the whole cluster.
	accountant *queues.Accountant
	bookkeeper *accounting.Bookkeeper
	remediator *remediation.Remediator
	// gpuFit is nil if it is disabled.
	gpuFit  *admissioncheck.Check
	metrics *controllerMetrics
	// ready is true once the caches are synced.
	ready atomic.Bool
}

func newProcess(ctx context.Context, clients clients, recorder record.EventRecorder, clock clock.WithTicker, opts *options) (*process, error) {
	caches, err := newCaches(clients, opts.namespace)
	if err != nil {
		return nil, err
	}
	p := &process{caches: caches, metrics: newMetrics(caches.tasks), queues: queuewatch.New(clients.tasks, clock)}
	if p.gpuPods, err = gpupods.New(ctx, gpupods.Dependencies{
		Kube: clients.kube, NodeInformers: p.nodeInformers, TaskPods: p.coreInformers.Core().V1().Pods(), Namespace: opts.namespace,
		WithoutGPUs: opts.rescheduling.Period > 0 || opts.gpuFit.Enabled, Clock: clock,
	}); err != nil {
		return nil, err
	}
	with := dependencies{
		caches: caches, clients: clients, recorder: recorder, metrics: p.metrics, rescheduling: noRescheduling{},
		queueTree: p.queues.Tree, queuesKnown: p.queues.Known, clock: clock,
	}
	if opts.rescheduling.Period > 0 {
		p.rescheduler, err = rescheduler.New(ctx, rescheduler.Dependencies{
			Kube: clients.kube, Client: clients.tasks, NodeInformers: caches.nodeInformers, GPUTasks: caches.tasks, PodsOf: caches.podsOf, Pods: p.gpuPods,
			MovePlans: caches.taskInformers.Falldio().V1().MovePlans(), Recorder: recorder, Metrics: p.metrics.registry, Evictions: p.metrics.podsEvicted,
			Clock: clock, Namespace: opts.namespace, Queues: p.queues.Tree, NamespaceOf: p.namespace,
			Factors: func() map[string]float64 { return gpuqueue.Factors(p.queues.Queues()) },
		}, opts.rescheduling)
		if err != nil {
			return nil, err
		}
		with.rescheduling = p.rescheduler
	}
	if with.admissions, err = p.joinKueue(ctx, clients, clock, opts); err != nil {
		return nil, err
	}
	p.controller = newController(with, opts)
	p.queues.OnChange(func(string) { p.controller.refusals.QueuesChanged() })
	return p, errors.Join(p.controller.watch(ctx), p.keepAccounts(clients, clock, opts), p.taintNodes(ctx, with, opts))
}

// namespace returns a namespace; nil if the cache does not show it.
func (p *process) namespace(name string) *corev1.Namespace {
	found, err := p.clusterInformers.Core().V1().Namespaces().Lister().Get(name)
	if err != nil {
		return nil
	}
	return found
}

// keepAccounts prepares the writing of the status of GPUQueues, and of what GPU time was used.
func (p *process) keepAccounts(clients clients, clock clock.WithTicker, opts *options) (err error) {
	if opts.namespace != "" {
		return nil
	}
	namespaces := p.clusterInformers.Core().V1().Namespaces()
	p.accountant, err = queues.New(queues.Dependencies{
		Client: clients.tasks, Queues: p.queues, Pods: p.gpuPods,
		Namespaces: namespaces.Lister(), NamespacesSynced: namespaces.Informer().HasSynced, Metrics: p.metrics.registry, Clock: clock,
	}, opts.queues)
	if err != nil {
		return err
	}
	p.bookkeeper, err = accounting.New(accounting.Dependencies{
		Kube: clients.kube, Pods: p.gpuPods, Tasks: p.tasks, QueueTree: p.queues.Tree, QueuesKnown: p.queues.Known,
		Namespaces: namespaces.Lister(), NamespacesSynced: namespaces.Informer().HasSynced, Metrics: p.metrics.registry, Clock: clock,
	}, opts.accounting)
	return err
}

// taintNodes prepares the tainting of Nodes with unhealthy GPUs, or the removal of such taints.
func (p *process) taintNodes(ctx context.Context, with dependencies, opts *options) (err error) {
	if opts.namespace != "" {
		return nil
	}
	p.remediator, err = remediation.New(ctx, remediation.Dependencies{
		Kube: with.clients.kube, NodeInformers: p.nodeInformers, Recorder: with.recorder, Metrics: p.metrics.registry, Clock: with.clock,
	}, opts.remediation)
	return err
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
	go p.queues.Run(ctx)
	if p.rescheduler != nil {
		p.rescheduler.WaitForMovePlans(ctx, reschedulerTimeout)
	}
	p.queues.WaitUntilKnown(ctx, queueSyncTimeout)
	p.ready.Store(true)
	return true
}

// work handles tasks, keeps the accounts of queues, answers Kueue, taints Nodes and moves Pods until ctx ends and all
// work in progress is done.
func (p *process) work(ctx context.Context) {
	p.refusalInformers.StartWithContext(ctx)
	p.clusterInformers.StartWithContext(ctx)
	p.awaitNamespaces(ctx)
	var working sync.WaitGroup
	working.Go(func() { p.controller.Run(ctx) })
	working.Go(func() { p.controller.admissions.Run(ctx) })
	working.Go(func() { p.gpuPods.Run(ctx) })
	if p.accountant != nil {
		working.Go(func() { p.accountant.Run(ctx) })
		working.Go(func() { p.bookkeeper.Run(ctx) })
	}
	if p.remediator != nil {
		working.Go(func() { p.remediator.Run(ctx) })
	}
	if p.rescheduler != nil {
		working.Go(func() { p.rescheduler.Run(ctx) })
	}
	if p.gpuFit != nil {
		working.Go(func() { p.gpuFit.Run(ctx) })
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

// newRecorder returns a recorder that keeps working while the controller shuts down, since
// the last tasks are still being handled then.
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
