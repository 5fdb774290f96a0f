// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package queuewatch caches the GPUQueues, if the API server has such a kind: whether it does
// is looked up again from time to time, because an informer for a kind that does not exist would
// never have a result. A cluster without the kind is one without queues.
package queuewatch

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	clientset "falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	informers "falldio.github.io/gpu-controller/pkg/generated/informers/externalversions"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/queueing"
)

const (
	// lookTimeout bounds a request.
	lookTimeout = 15 * time.Second
	// knownPeriod is how often to check whether the queues are known.
	knownPeriod = 20 * time.Millisecond
)

// Watcher caches the GPUQueues. It is safe for concurrent use.
type Watcher struct {
	client  clientset.Interface
	clock   clock.Clock
	changed []func(queue string)

	mu sync.Mutex
	// known is true once it is known which queues there are, or that there is no such kind.
	known bool
	// queues are those of the present watch, nil if there is none.
	queues cache.Store
	// tree is computed when it is asked for; nil if it is outdated.
	tree *queueing.Tree
}

// New returns a Watcher.
func New(client clientset.Interface, clock clock.Clock) *Watcher {
	return &Watcher{client: client, clock: clock}
}

// OnChange has a function called after a queue was created or deleted, or its spec has changed, and
// with an empty name after anything may have changed. It must not block. It is to be called before
// Run.
func (w *Watcher) OnChange(changed func(queue string)) { w.changed = append(w.changed, changed) }

// Known reports whether it is known which queues there are. It is not before the first answer of
// the API server, or while that forbids to list them.
func (w *Watcher) Known() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

// WaitUntilKnown waits until it is known which queues there are, and reports whether it is. It
// returns false after the timeout, or when ctx ends.
func (w *Watcher) WaitUntilKnown(ctx context.Context, timeout time.Duration) bool {
	err := wait.PollUntilContextTimeout(ctx, knownPeriod, timeout, true, func(context.Context) (bool, error) { return w.Known(), nil })
	return err == nil
}

// Queues returns the queues as the API server has sent them last, by name. They must not be changed.
func (w *Watcher) Queues() []*v1.GPUQueue {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list()
}

func (w *Watcher) list() []*v1.GPUQueue {
	if w.queues == nil {
		return nil
	}
	var queues []*v1.GPUQueue
	for _, object := range w.queues.List() {
		if queue, ok := object.(*v1.GPUQueue); ok {
			queues = append(queues, queue)
		}
	}
	slices.SortFunc(queues, func(a, b *v1.GPUQueue) int { return cmp.Compare(a.Name, b.Name) })
	return queues
}

// Tree returns the tree of all queues; nil if there are none, or it is not known which.
func (w *Watcher) Tree() *queueing.Tree {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tree == nil && w.queues != nil {
		if queues := w.list(); len(queues) > 0 {
			w.tree = gpuqueue.NewTree(queues)
		}
	}
	return w.tree
}

// Run watches the queues until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	(&informer.Optional{
		API: "gpuqueues." + v1.GroupName, Clock: w.clock, Look: w.look, Absent: func() { w.replace(nil, true) }, Follow: w.follow,
	}).Run(ctx)
}

// look reports whether GPUQueues can be listed.
func (w *Watcher) look(ctx context.Context) (served bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if _, err = w.client.FalldioV1().GPUQueues().List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// follow watches the queues for as long as the kind is served.
func (w *Watcher) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logger := klog.FromContext(ctx)
	queues := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithTransform(informer.WithoutManagedFields)).
		Falldio().V1().GPUQueues().Informer()
	if err := informer.WatchFailures(queues, cancel, nil); err != nil {
		logger.Error(err, "GPUQueues can't be watched")
		return
	}
	synced, err := informer.Handle(ctx, queues, cache.ResourceEventHandlerFuncs{
		AddFunc:    w.observe,
		UpdateFunc: w.observeUpdate,
		DeleteFunc: w.observe,
	})
	if err != nil {
		logger.Error(err, "GPUQueues can't be watched")
		return
	}
	var running sync.WaitGroup
	running.Go(func() { queues.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), synced) {
		w.replace(queues.GetStore(), true)
	}
	running.Wait()
}

// replace sets where the queues are from now on.
func (w *Watcher) replace(queues cache.Store, known bool) {
	w.mu.Lock()
	same := w.known == known && w.queues == nil && queues == nil
	w.queues, w.known, w.tree = queues, known, nil
	w.mu.Unlock()
	if !same {
		w.announce("")
	}
}

func (w *Watcher) observe(object any) {
	if queue, ok := informer.LastKnown(object).(*v1.GPUQueue); ok {
		w.outdate(queue.Name)
	}
}

// observeUpdate ignores changes of the status.
func (w *Watcher) observeUpdate(before, after any) {
	old, ok := before.(*v1.GPUQueue)
	queue, ok2 := after.(*v1.GPUQueue)
	if ok && ok2 && (old.Generation != queue.Generation || old.UID != queue.UID) {
		w.outdate(queue.Name)
	}
}

func (w *Watcher) outdate(queue string) {
	w.mu.Lock()
	w.tree = nil
	w.mu.Unlock()
	w.announce(queue)
}

func (w *Watcher) announce(queue string) {
	for _, changed := range w.changed {
		changed(queue)
	}
}
