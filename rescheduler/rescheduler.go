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
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/moveplan"
)

const (
	// passPause is the least time between two passes over the plans: changes come in
	// bursts.
	passPause = 50 * time.Millisecond
	// passRetry is how soon a pass is tried again after an error, and how long it is
	// waited at most until the caches show what was written.
	passRetry = time.Second
	// idle is how long nothing needs to be looked at if nothing changes.
	idle = time.Hour
)

// Dependencies are what the rescheduler works with.
type Dependencies struct {
	Kube   kubernetes.Interface
	Client clientset.Interface
	// GPUTasks and PodsOf read the caches of tasks and their Pods, which are full when
	// Run is called.
	GPUTasks tasklisters.GPUTaskLister
	PodsOf   func(*v1.GPUTask) []*corev1.Pod
	// MovePlans is an informer that somebody else starts.
	MovePlans taskinformers.MovePlanInformer
	Recorder  record.EventRecorder
	Metrics   prometheus.Registerer
	// Evictions are those of NewEvictions, which somebody else registers.
	Evictions *prometheus.CounterVec
	Clock     clock.WithTicker
	// Namespace confines what is moved; empty for all namespaces.
	Namespace string
}

// Rescheduler moves Pods. All it does is done by one goroutine, that of Run.
type Rescheduler struct {
	deps    Dependencies
	options Options

	informers informers.SharedInformerFactory
	nodes     corelisters.NodeLister
	budgets   policylisters.PodDisruptionBudgetLister
	plans     tasklisters.MovePlanLister
	// caches are what has to be filled before anything is moved.
	caches  []namedCache
	metrics *metrics

	// wake has a value when something has changed that plans wait for.
	wake chan struct{}
	// executing is true while plans are carried out. A proposal, which may wait for
	// days, does not depend on what happens meanwhile.
	executing atomic.Bool
	// expectations are about the MovePlans: a second plan for the same purpose would be
	// made, or the same step be taken again.
	expectations *expectations.Expectations[string]
	// tries are the evictions that this process asked for, by the Pods' UIDs.
	tries map[types.UID]moveplan.Try
}

// New returns a rescheduler that watches nodes, PodDisruptionBudgets and MovePlans.
func New(ctx context.Context, with Dependencies, options Options) (*Rescheduler, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(with.Kube, 0, informers.WithTransform(informer.WithoutManagedFields))
	nodes, budgets := factory.Core().V1().Nodes(), factory.Policy().V1().PodDisruptionBudgets()
	options.Planner.Namespace = with.Namespace
	r := &Rescheduler{
		deps: with, options: options,
		informers: factory, nodes: nodes.Lister(), budgets: budgets.Lister(), plans: with.MovePlans.Lister(),
		wake:         make(chan struct{}, 1),
		expectations: expectations.New[string](with.Clock),
		tries:        map[types.UID]moveplan.Try{},
	}
	r.metrics = newMetrics(r)
	if err := r.metrics.register(with.Metrics); err != nil {
		return nil, err
	}
	return r, r.watch(ctx, with.MovePlans.Informer(), nodes.Informer(), budgets.Informer())
}

// Run carries plans out until ctx ends, and looks once per period what should be moved.
func (r *Rescheduler) Run(ctx context.Context) {
	for !r.WaitForCaches(ctx, cachesReport) {
		if ctx.Err() != nil {
			return
		}
	}
	ticker := r.deps.Clock.NewTicker(r.options.Period)
	defer ticker.Stop()
	again := r.deps.Clock.NewTimer(0) // at first: what the last process has left
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

// pass brings all plans a step further and returns when the next pass is due.
func (r *Rescheduler) pass(ctx context.Context) time.Duration {
	again, err := r.executePlans(ctx)
	switch {
	case ctx.Err() != nil:
		return idle
	case err != nil:
		klog.FromContext(ctx).V(apierror.LogLevel(err)).Info("Trying to carry out the MovePlans again later", "err", err)
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
	for _, do := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"Moving misplaced Pods stopped until the next period", r.repair},
		{"Planning moves failed until the next period", r.propose},
		{"Deleting old MovePlans failed until the next period", r.deleteOldPlans},
	} {
		if err := do.do(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, do.what)
		}
	}
}

// trigger makes the next pass come soon.
func (r *Rescheduler) trigger() {
	select {
	case r.wake <- struct{}{}:
	default: // it comes anyway
	}
}
