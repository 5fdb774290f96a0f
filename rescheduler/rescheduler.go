// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/klog/v2"

	tasklisters "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/moveplan"
	"falldio.github.io/gpu-controller/pkg/reschedule"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const (
	// passPause is the least time between two looks at the plans: changes come in
	// bursts.
	passPause = 50 * time.Millisecond
	// passRetry is how soon a pass is tried again after an error, and how long it is
	// waited at most until the caches show what was written.
	passRetry = time.Second
)

// rescheduler moves Pods. What is to be moved is decided by pkg/reschedule, how a plan
// is carried out by pkg/moveplan; the evicted Pods are replaced by the controller like
// all lost Pods. All it does is done by one goroutine.
type rescheduler struct {
	controller *Controller
	period     time.Duration
	namespace  string
	options    reschedule.Options
	levels     snapshot.Levels
	// moveTimeout and history are those of the flags.
	moveTimeout, history time.Duration

	informers informers.SharedInformerFactory
	nodes     corelisters.NodeLister
	budgets   policylisters.PodDisruptionBudgetLister
	plans     tasklisters.MovePlanLister
	// caches are what has to be filled before anything is moved. The controller works
	// without them.
	caches []namedCache
	// patience is how long the controller waits for them before it begins.
	patience time.Duration
	metrics  *moveMetrics

	// wake has a value when something has changed that plans wait for.
	wake chan struct{}
	// active is true while plans are carried out. A proposal, which may wait for days,
	// does not depend on what happens meanwhile.
	active atomic.Bool
	unseen *unseenPlans
	// tries are the evictions that this process asked for.
	tries map[types.UID]moveplan.Try
}

// newRescheduler begins to watch nodes, PodDisruptionBudgets and MovePlans.
func newRescheduler(ctx context.Context, controller *Controller, opts *options) (*rescheduler, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(controller.clients.kube, 0,
		informers.WithTransform(withoutManagedFields))
	nodes, budgets := factory.Core().V1().Nodes(), factory.Policy().V1().PodDisruptionBudgets()
	plans := controller.taskInformers.Falldio().V1().MovePlans()
	r := &rescheduler{
		controller: controller, period: opts.rescheduling.period, namespace: opts.namespace,
		options: opts.rescheduling.planner(opts.namespace), levels: opts.rescheduling.levels,
		moveTimeout: opts.rescheduling.moveTimeout, history: opts.rescheduling.history,
		informers: factory, nodes: nodes.Lister(), budgets: budgets.Lister(), plans: plans.Lister(),
		wake: make(chan struct{}, 1), unseen: newUnseenPlans(controller.clock), tries: map[types.UID]moveplan.Try{},
		patience: cachesPatience,
	}
	r.metrics = newMoveMetrics(r)
	controller.metrics.registry.MustRegister(r.metrics.collectors()...)
	return r, r.watch(ctx, plans.Informer(), nodes.Informer(), budgets.Informer())
}

// run carries plans out until ctx ends, and looks once per period what should be
// moved.
func (r *rescheduler) run(ctx context.Context) {
	for !r.hasCaches(ctx, cachesReport) {
		if ctx.Err() != nil {
			return
		}
	}
	clock := r.controller.clock
	ticker := clock.NewTicker(r.period)
	defer ticker.Stop()
	again := clock.NewTimer(0) // at first: what the last process has left
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			r.look(ctx)
		case <-r.wake:
		case <-again.C():
		}
		again.Stop()
		again = clock.NewTimer(r.pass(ctx))
		select {
		case <-ctx.Done():
			return
		case <-clock.After(passPause):
		}
	}
}

// idle is how long nothing needs to be looked at if nothing changes.
const idle = time.Hour

// pass brings all plans a step further and returns when the next pass is due.
func (r *rescheduler) pass(ctx context.Context) time.Duration {
	again, err := r.carryOut(ctx)
	switch {
	case ctx.Err() != nil:
		return idle
	case err != nil:
		klog.FromContext(ctx).V(retryVerbosity(err)).Info("Trying to carry out the MovePlans again later", "err", err)
		return passRetry
	case again == 0:
		return idle
	default:
		return again
	}
}

// look repairs what sits badly, proposes the next plan and forgets old ones.
func (r *rescheduler) look(ctx context.Context) {
	logger := klog.FromContext(ctx)
	for _, do := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"Moving misplaced Pods stopped until the next period", r.repair},
		{"Planning moves failed until the next period", r.propose},
		{"Deleting old MovePlans failed until the next period", r.forget},
	} {
		if err := do.do(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, do.what)
		}
	}
}

// poke makes the next pass come soon.
func (r *rescheduler) poke() {
	select {
	case r.wake <- struct{}{}:
	default: // it comes anyway
	}
}
