// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rescheduler moves Pods: it proposes MovePlans, carries them out, and repairs
// what is misplaced. What is to be moved is decided by pkg/reschedule, how a plan is
// carried out by pkg/moveplan; this package gathers what they need and applies what they
// decide. The evicted Pods are replaced by the controller like all lost Pods.
package rescheduler

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/apierror"
	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/expectations"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	taskinformers "falldio.github.io/gpu-controller/pkg/generated/informers/externalversions/gpucontroller/v1"
	tasklisters "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/reschedule"
)

const (
	// passPause is the minimum time between two passes over the plans: changes come in
	// bursts.
	passPause = 50 * time.Millisecond
	// passRetry is the delay before a pass is retried after an error, and the longest wait
	// for the caches to show what was written.
	passRetry = time.Second
	// idle is the delay before the next pass if nothing changes.
	idle = time.Hour
)

// Dependencies are what the rescheduler needs.
type Dependencies struct {
	Kube   kubernetes.Interface
	Client clientset.Interface
	// NodeInformers caches Nodes, trimmed at most as trimming.ForController does; Run starts it, unless somebody else
	// has.
	NodeInformers informers.SharedInformerFactory
	// GPUTasks and PodsOf read the caches of tasks and their Pods, which have synced when
	// Run is called.
	GPUTasks tasklisters.GPUTaskLister
	PodsOf   func(*v1.GPUTask) []*corev1.Pod
	// Pods has the Pods that run, also those without GPUs; the caller runs it.
	Pods *gpupods.Cache
	// MovePlans is an informer that the caller starts.
	MovePlans taskinformers.MovePlanInformer
	Recorder  record.EventRecorder
	Metrics   prometheus.Registerer
	// Evictions is the counter from NewEvictions, which the caller registers.
	Evictions *prometheus.CounterVec
	Clock     clock.WithTicker
	// Namespace restricts what is moved; empty for all namespaces.
	Namespace string
	// Queues returns the tree of the GPUQueues, nil if there are none, Factors their fair-share factors, and
	// NamespaceOf a namespace, nil if it is not known.
	Queues      func() *queueing.Tree
	Factors     func() map[string]float64
	NamespaceOf func(name string) *corev1.Namespace
}

// Rescheduler moves Pods. A single goroutine, that of Run, does all the work.
type Rescheduler struct {
	deps    Dependencies
	options Options

	// informers of nodes and budgets. They run in the leader only.
	informers []informers.SharedInformerFactory
	nodes     corelisters.NodeLister
	budgets   policylisters.PodDisruptionBudgetLister
	plans     tasklisters.MovePlanLister
	// caches must have synced before anything is moved. The first one is that of MovePlans.
	caches  []namedCache
	metrics *metrics

	// wake triggers a pass: something has changed that plans may wait for.
	wake chan struct{}
	// executing is true while plans are being carried out. Changes in the cluster don't
	// matter to a proposal, which may wait for days.
	executing atomic.Bool
	// expectations track the writes to MovePlans: with stale caches, a plan would be
	// proposed twice or a step repeated.
	expectations *expectations.Expectations[string]
	// tries are the evictions that this process has requested, by Pod UID.
	tries map[types.UID]moveplan.Try
	// repairs are the Pods that were moved without a plan.
	repairs repairs
}

// New returns a rescheduler that watches nodes, PodDisruptionBudgets and MovePlans.
func New(ctx context.Context, deps Dependencies, options Options) (*Rescheduler, error) {
	options.Planner.Searches = reschedule.NewSearches()
	factory := informers.NewSharedInformerFactoryWithOptions(deps.Kube, 0, informers.WithTransform(informer.WithoutManagedFields))
	nodes, budgets := deps.NodeInformers.Core().V1().Nodes(), factory.Policy().V1().PodDisruptionBudgets()
	options.Planner.Namespace = deps.Namespace
	deps.Pods.KeepWithoutGPUs()
	r := &Rescheduler{
		deps: deps, options: options,
		informers: []informers.SharedInformerFactory{deps.NodeInformers, factory},
		nodes:     nodes.Lister(), budgets: budgets.Lister(), plans: deps.MovePlans.Lister(),
		wake:         make(chan struct{}, 1),
		expectations: expectations.New[string](deps.Clock),
		tries:        map[types.UID]moveplan.Try{},
	}
	r.metrics = newMetrics(r)
	return r, r.watch(ctx, deps.MovePlans.Informer(), nodes.Informer(), budgets.Informer())
}

// Run carries out plans until ctx ends, and plans once per period what to move.
func (r *Rescheduler) Run(ctx context.Context) {
	r.startInformers(ctx)
	for !waitForCaches(ctx, r.caches, cachesReport) {
		if ctx.Err() != nil {
			return
		}
	}
	ticker := r.deps.Clock.NewTicker(r.options.Period)
	defer ticker.Stop()
	again := r.deps.Clock.NewTimer(0) // at once: continue what the previous process began
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			r.runCycle(ctx)
		case <-r.wake:
		case <-again.C():
		}
		again.Stop()
		again = r.deps.Clock.NewTimer(r.pass(ctx))
		select {
		case <-ctx.Done():
			return
		case <-r.deps.Clock.After(passPause):
		}
	}
}

// pass advances all plans by one step and returns the delay before the next pass.
func (r *Rescheduler) pass(ctx context.Context) time.Duration {
	again, err := r.executePlans(ctx)
	switch {
	case ctx.Err() != nil:
		return idle
	case err != nil:
		klog.FromContext(ctx).V(apierror.LogLevel(err)).Info("Carrying out MovePlans failed, retrying", "err", err)
		return passRetry
	case again == 0:
		return idle
	default:
		return again
	}
}

// runCycle repairs what is misplaced, proposes the next plan and deletes old ones.
func (r *Rescheduler) runCycle(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for _, job := range []struct {
		failure string
		run     func(context.Context) error
	}{
		{"Moving misplaced Pods stopped until the next period", r.repair},
		{"Planning moves failed until the next period", r.propose},
		{"Deleting old MovePlans failed until the next period", r.deleteOldPlans},
	} {
		if err := job.run(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, job.failure)
		}
	}
}

// trigger requests a pass.
func (r *Rescheduler) trigger() {
	select {
	case r.wake <- struct{}{}:
	default: // already requested
	}
}
