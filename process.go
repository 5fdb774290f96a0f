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

	"falldio.github.io/gpu-controller/admissioncheck"
	taskscheme "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned/scheme"
	"falldio.github.io/gpu-controller/rescheduler"
	"falldio.github.io/gpu-controller/workloads"
)

// reschedulerSyncTimeout is how long the controller waits for the cache of MovePlans: the
// first Pods that it replaces may be those of a plan. If the CRD is of a version
// without MovePlans, or permissions are missing, this cache never syncs.
const reschedulerSyncTimeout = 10 * time.Second

// process holds the parts of gpu-controller: the controller and, unless it is disabled, the
// rescheduler, which share caches.
type process struct {
	*caches
	controller *Controller
	// rescheduler is nil if it is disabled.
	rescheduler *rescheduler.Rescheduler
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
	p := &process{caches: caches, metrics: newMetrics(caches.tasks)}
	with := dependencies{
		caches: caches, clients: clients, recorder: recorder, metrics: p.metrics, rescheduling: noRescheduling{}, admissions: noAdmissions{}, clock: clock,
	}
	if opts.rescheduling.Period > 0 {
		p.rescheduler, err = rescheduler.New(ctx, rescheduler.Dependencies{
			Kube: clients.kube, Client: clients.tasks, GPUTasks: caches.tasks, PodsOf: caches.podsOf, TaskPods: caches.coreInformers.Core().V1().Pods().Lister(),
			MovePlans: caches.taskInformers.Falldio().V1().MovePlans(), Recorder: recorder, Metrics: p.metrics.registry, Evictions: p.metrics.podsEvicted,
			Clock: clock, Namespace: opts.namespace,
		}, opts.rescheduling)
		if err != nil {
			return nil, err
		}
		with.rescheduling = p.rescheduler
	}
	if clients.dynamic != nil {
		with.admissions = p.newWorkloads(clients, clock, opts)
	}
	if opts.gpuFit.Enabled && clients.dynamic != nil {
		settings := opts.gpuFit
		settings.Levels = opts.rescheduling.Levels
		p.gpuFit, err = admissioncheck.New(ctx, admissioncheck.Dependencies{
			Kube: clients.kube, Dynamic: clients.dynamic, Discovery: clients.discovery, Clock: clock,
		}, settings)
		if err != nil {
			return nil, err
		}
	}
	p.controller = newController(with, opts)
	return p, p.controller.watch(ctx)
}

// newWorkloads returns the Workloads of tasks that are submitted to Kueue.
func (p *process) newWorkloads(clients clients, clock clock.Clock, opts *options) *workloads.Workloads {
	classes := p.clusterInformers.Scheduling().V1().PriorityClasses()
	return workloads.New(workloads.Dependencies{
		Client: clients.dynamic, Discovery: clients.discovery, Clock: clock, Namespace: opts.namespace, Pods: opts.tasks.Pods,
		Classes: classes.Lister(), ClassesSynced: classes.Informer().HasSynced,
		Changed:    func(task cache.ObjectName) { p.controller.enqueue(task) },
		AllChanged: func() { p.controller.enqueueInKueue() },
	})
}

// startInformers starts the informers and waits for their caches. It returns false if ctx
// ends first. The controller works without the cache of MovePlans, for which the
// rescheduler keeps waiting itself, as for what only the leader caches.
func (p *process) startInformers(ctx context.Context, reschedulerTimeout time.Duration) bool {
	p.taskInformers.StartWithContext(ctx)
	p.coreInformers.StartWithContext(ctx)
	if !cache.WaitForNamedCacheSyncWithContext(ctx, p.controller.synced...) {
		return false
	}
	if p.rescheduler != nil {
		p.rescheduler.WaitForMovePlans(ctx, reschedulerTimeout)
	}
	p.ready.Store(true)
	return true
}

// work handles tasks and moves Pods until ctx ends and all work in progress is done.
func (p *process) work(ctx context.Context) {
	p.causeInformers.StartWithContext(ctx)
	p.clusterInformers.StartWithContext(ctx)
	var working sync.WaitGroup
	working.Go(func() { p.controller.work(ctx) })
	working.Go(func() { p.controller.admissions.Run(ctx) })
	if p.rescheduler != nil {
		working.Go(func() { p.rescheduler.Run(ctx) })
	}
	if p.gpuFit != nil {
		working.Go(func() { p.gpuFit.Run(ctx) })
	}
	working.Wait()
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
