// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation taints Nodes whose GPUs are not healthy. Which Nodes is decided by
// pkg/remediation; this package gathers what that needs and writes the taints.
package remediation

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/apierror"
	"falldio.github.io/gpu-controller/pkg/remediation"
)

const (
	// batch is how long changes of Nodes are batched before a pass: a switch that fails, or a
	// driver, is a fault of many.
	batch = time.Second
	// minRetryDelay and maxRetryDelay bound the backoff after an API error, which doubles
	// with every retry.
	minRetryDelay = 100 * time.Millisecond
	maxRetryDelay = time.Minute
)

// Dependencies are what a Remediator needs.
type Dependencies struct {
	Kube kubernetes.Interface
	// NodeInformers caches Nodes, trimmed at most as trimming.ForController does; Run starts it if Nodes are to be
	// tainted, unless somebody else has.
	NodeInformers informers.SharedInformerFactory
	Recorder      record.EventRecorder
	Metrics       prometheus.Registerer
	Clock         clock.WithTicker
}

// Remediator taints Nodes. A single goroutine looks at all of them together, since together they
// must not be too many.
type Remediator struct {
	deps    Dependencies
	policy  remediation.Policy
	nodes   source
	queue   workqueue.TypedRateLimitingInterface[pass]
	metrics *metrics

	// written are the Nodes as this process has written them last, by their names. The source
	// may not show them yet.
	written map[string]*corev1.Node
	// heldBack are the Nodes of which it was said that they are held back.
	heldBack map[types.UID]bool
}

// pass is the only item of the queue: a look at all Nodes.
type pass struct{}

// New returns a Remediator. If no Node is to be tainted, it only removes the taints that a process
// with other flags has left.
func New(ctx context.Context, deps Dependencies, options Options) (*Remediator, error) {
	r := &Remediator{
		deps: deps, policy: options.policy(), metrics: newMetrics(deps.Metrics),
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[pass](minRetryDelay, maxRetryDelay),
			workqueue.TypedRateLimitingQueueConfig[pass]{Name: "remediation", Clock: deps.Clock}),
		written: map[string]*corev1.Node{}, heldBack: map[types.UID]bool{},
	}
	if options.Effect == "" {
		r.nodes = &leftBehind{kube: deps.Kube}
		return r, nil
	}
	nodes, err := newWatched(ctx, deps.NodeInformers, func() { r.queue.AddAfter(pass{}, batch) })
	r.nodes = nodes
	return r, err
}

// Run taints Nodes until ctx ends.
func (r *Remediator) Run(ctx context.Context) {
	defer r.metrics.set(0, 0)
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { r.nodes.run(ctx) })
	defer r.queue.ShutDown()
	if !r.nodes.ready(ctx) {
		return
	}
	r.queue.Add(pass{})
	working.Go(func() {
		for r.next(ctx) {
		}
	})
	<-ctx.Done()
}

// next makes the next pass. It returns false when the process must stop.
func (r *Remediator) next(ctx context.Context) bool {
	item, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(item)
	if ctx.Err() != nil {
		return false
	}
	if !r.pass(ctx) {
		r.queue.AddRateLimited(item)
		return true
	}
	r.queue.Forget(item)
	return true
}

// pass looks at all Nodes and reports whether everything was written that is to be.
func (r *Remediator) pass(ctx context.Context) bool {
	logger := klog.FromContext(ctx)
	nodes, err := r.nodes.list(ctx)
	if err != nil {
		logger.V(apierror.LogLevel(err)).Info("Listing Nodes for the taints of unhealthy GPUs failed, trying again", "err", err)
		return false
	}
	plan := remediation.Decide(r.latest(nodes), r.policy, r.deps.Clock.Now())
	r.reportHeldBack(ctx, &plan)
	tainted, done := plan.Tainted, true
	for i := range plan.Changes {
		change := &plan.Changes[i]
		switch err := r.write(ctx, change); {
		case err != nil:
			done = false
			logger.V(apierror.LogLevel(err)).Info("Writing the taints of a Node failed, trying again", "node", change.Node.Name, "err", err)
		case change.Kind == remediation.Added:
			tainted++
		case change.Kind == remediation.Removed:
			tainted--
		}
	}
	r.metrics.set(tainted, len(plan.HeldBack))
	return done
}

// reportHeldBack says of which Nodes the taint is held back, of each once.
func (r *Remediator) reportHeldBack(ctx context.Context, plan *remediation.Plan) {
	heldBack := make(map[types.UID]bool, len(plan.HeldBack))
	for _, node := range plan.HeldBack {
		heldBack[node.UID] = true
		if !r.heldBack[node.UID] {
			r.deps.Recorder.Event(node, corev1.EventTypeWarning, ReasonHeldBack, plan.WhyHeldBack())
		}
	}
	if len(heldBack) != len(r.heldBack) {
		klog.FromContext(ctx).Info("Nodes with unhealthy GPUs that are not tainted since too many are", "heldBack", len(heldBack),
			"limit", plan.Limit, "nodesWithGPUs", plan.Nodes)
	}
	r.heldBack = heldBack
}
