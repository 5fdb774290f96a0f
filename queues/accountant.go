// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queues writes the status of GPUQueues: what each holds, has borrowed and waits for, what
// is wrong with it, and how much GPU time it has used. What there is to say is decided by
// pkg/gpuqueue; this package gathers what that needs and writes the result. The statuses are all
// that is kept: whoever writes them next goes on from there.
package queues

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/pkg/gpupods"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/queuewatch"
)

const (
	// passPeriod is how often the GPU time is counted, and passPause the least time between two
	// passes: queues that are created together are handled together.
	passPeriod = 10 * time.Second
	passPause  = 500 * time.Millisecond
	// retryPeriod is how long to wait for the caches.
	retryPeriod = time.Second
)

// Dependencies are what an Accountant needs.
type Dependencies struct {
	Client clientset.Interface
	// Queues are watched by the caller.
	Queues *queuewatch.Watcher
	// Pods are run by the caller.
	Pods *gpupods.Cache
	// NamespaceOf returns a namespace from a cache that the caller fills, nil if it does not exist; NamespacesSynced is
	// that cache's.
	NamespaceOf      func(name string) *corev1.Namespace
	NamespacesSynced cache.InformerSynced
	Recorder         record.EventRecorder
	Metrics          prometheus.Registerer
	Clock            clock.WithTicker
}

// Accountant writes the status of GPUQueues. A single goroutine, that of Run, does all the work.
type Accountant struct {
	deps    Dependencies
	options Options
	pods    *gpupods.Reader
	metrics *metrics

	// wake triggers a pass.
	wake chan struct{}
	// accounts are the GPU time of the queues; nil before the first pass of this leader.
	accounts gpuqueue.Accounts
	// written are the statuses that this process has written last. The cache may not show them yet.
	written map[types.UID]v1.GPUQueueStatus
}

// New returns an Accountant.
func New(deps Dependencies, options Options) (*Accountant, error) {
	a := &Accountant{deps: deps, options: options, wake: make(chan struct{}, 1), written: map[types.UID]v1.GPUQueueStatus{}}
	a.pods = deps.Pods.NewReader()
	a.metrics = &metrics{}
	deps.Queues.OnChange(func(string) { a.trigger() })
	return a, deps.Metrics.Register(a.metrics)
}

// trigger requests a pass.
func (a *Accountant) trigger() {
	select {
	case a.wake <- struct{}{}:
	default: // already requested
	}
}

// Run writes statuses until ctx ends. Nodes, and Pods of others than GPUTasks, are cached once
// there is a queue.
func (a *Accountant) Run(ctx context.Context) {
	a.accounts = gpuqueue.Accounts{} // a former leader's statuses count, not what this process knew when it last led
	clear(a.written)
	defer a.pods.Forget()
	for ctx.Err() == nil {
		pause := passPeriod
		switch {
		case len(a.deps.Queues.Queues()) == 0:
			a.pods.Forget()
			a.metrics.set(nil, nil)
		case !a.cached():
			pause = retryPeriod
		default:
			if err := a.pass(ctx); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Writing the status of GPUQueues failed; trying again")
				pause = retryPeriod
			}
		}
		a.rest(ctx, pause)
	}
}

// cached reports whether everything is cached that a pass needs.
func (a *Accountant) cached() bool {
	a.deps.Pods.Want()
	return a.deps.Pods.HasSynced() && a.deps.NamespacesSynced()
}

// rest waits until the next pass is due or requested.
func (a *Accountant) rest(ctx context.Context, pause time.Duration) {
	timer := a.deps.Clock.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-timer.C():
		return
	case <-a.wake:
	}
	select {
	case <-ctx.Done():
	case <-a.deps.Clock.After(passPause):
	}
}

// pass counts the GPU time and writes the statuses that have changed.
func (a *Accountant) pass(ctx context.Context) error {
	queues, tree := a.deps.Queues.Queues(), a.deps.Queues.Tree()
	if tree == nil {
		return nil // the last one was deleted a moment ago
	}
	// Times in a status have whole seconds. What is counted up to now must be the same then.
	now := a.deps.Clock.Now().Truncate(time.Second)
	view := gpuqueue.NewView(tree)
	cluster := &gpuqueue.Cluster{Tree: tree, Namespace: a.deps.NamespaceOf, Node: a.deps.Pods.Node}
	if err := a.pods.Each(func(pod *corev1.Pod) { view.Add(cluster, pod) }); err != nil {
		return err
	}
	nodes, err := a.deps.Pods.Nodes()
	if err != nil {
		return err
	}
	a.accounts.Load(queues)
	a.accounts.Charge(tree, view.Holdings, now, a.options.HalfLife)
	report := gpuqueue.NewReport(view, a.accounts, a.options.HalfLife, now)
	report.Supply = gpuqueue.NewSupply(nodes)
	a.metrics.set(report, queues)
	return a.write(ctx, queues, report)
}

// write writes the statuses that are worth it. It goes on after a failure.
func (a *Accountant) write(ctx context.Context, queues []*v1.GPUQueue, report *gpuqueue.Report) error {
	var errs []error
	exist := make(map[types.UID]bool, len(queues))
	for _, queue := range queues {
		exist[queue.UID] = true
		known := a.latest(queue)
		status := report.Status(known)
		if !gpuqueue.WorthWriting(&known.Status, &status, report.Now) {
			continue
		}
		if err := a.writeStatus(ctx, known, status); err != nil {
			errs = append(errs, err)
		}
	}
	maps.DeleteFunc(a.written, func(uid types.UID, _ v1.GPUQueueStatus) bool { return !exist[uid] })
	return errors.Join(errs...)
}

// latest returns a queue with the status that this process has written last, if the cache does not
// show it yet.
func (a *Accountant) latest(queue *v1.GPUQueue) *v1.GPUQueue {
	written, found := a.written[queue.UID]
	if !found || written.Usage == nil {
		return queue
	}
	if shown := queue.Status.Usage; shown != nil && !shown.AsOf.Before(&written.Usage.AsOf) {
		return queue
	}
	latest := *queue // shallow: the status is replaced as a whole
	latest.Status = written
	return &latest
}

func (a *Accountant) writeStatus(ctx context.Context, queue *v1.GPUQueue, status v1.GPUQueueStatus) error {
	changed := *queue // shallow: the client only reads it
	changed.Status = status
	_, err := a.deps.Client.FalldioV1().GPUQueues().UpdateStatus(ctx, &changed, metav1.UpdateOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // it was deleted, or has changed: the cache is about to show it
	case err != nil:
		return err
	}
	a.written[queue.UID] = status
	for _, condition := range gpuqueue.NewProblems(&queue.Status, &status) {
		a.deps.Recorder.Event(queue, corev1.EventTypeWarning, condition.Reason, condition.Message)
	}
	return nil
}
