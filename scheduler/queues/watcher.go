// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/generated/clientset/versioned"
	"falldio.github.io/gpu-controller/pkg/generated/informers/externalversions"
	listers "falldio.github.io/gpu-controller/pkg/generated/listers/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/informer"
)

const (
	resource = "gpuqueues"
	// lookPeriod is how often GPUQueues are looked for that are not served, and retryPeriod how
	// often if that failed.
	lookPeriod  = 30 * time.Second
	retryPeriod = 5 * time.Second
	// discoveryTimeout bounds a request.
	discoveryTimeout = 15 * time.Second
	// settlePeriod is how long changes are collected before the State is made anew.
	settlePeriod = 100 * time.Millisecond
)

// Listener is called with the State whenever it has changed.
type Listener func(*State)

// discoverer tells which resources are served.
type discoverer interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Watcher watches GPUQueues.
type Watcher struct {
	discovery  discoverer
	client     versioned.Interface
	namespaces corelisters.NamespaceLister
	clock      clock.Clock
	listener   Listener
	// changed is signalled when a GPUQueue or a namespace has changed.
	changed chan struct{}
}

// NewWatcher returns a Watcher. The namespaces' informer is started by the caller, who calls
// NamespaceChanged.
func NewWatcher(config *rest.Config, namespaces corelisters.NamespaceLister, clock clock.Clock, listener Listener) (*Watcher, error) {
	json := rest.CopyConfig(config)
	json.ContentType, json.AcceptContentTypes = "", "" // custom resources are served as JSON only
	client, err := versioned.NewForConfig(json)
	if err != nil {
		return nil, fmt.Errorf("client for GPUQueues: %w", err)
	}
	brief := rest.CopyConfig(config)
	brief.Timeout = discoveryTimeout
	looker, err := discovery.NewDiscoveryClientForConfig(brief)
	if err != nil {
		return nil, fmt.Errorf("client for discovery: %w", err)
	}
	return newWatcher(looker, client, namespaces, clock, listener), nil
}

func newWatcher(discovery discoverer, client versioned.Interface, namespaces corelisters.NamespaceLister, clock clock.Clock, listener Listener) *Watcher {
	return &Watcher{discovery: discovery, client: client, namespaces: namespaces, clock: clock, listener: listener, changed: make(chan struct{}, 1)}
}

// NamespaceChanged is to be called when the labels of a namespace have changed.
func (w *Watcher) NamespaceChanged() { w.signal() }

func (w *Watcher) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // signalled already
	}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := retryPeriod
		switch served, err := w.served(); {
		case err != nil: // what is known stays valid
			klog.FromContext(ctx).Error(err, "Looking for GPUQueues failed; trying again")
		case !served:
			pause = lookPeriod
			w.listener(NewState(nil, w.labelsOf))
		default:
			w.follow(ctx)
		}
		select {
		case <-ctx.Done():
		case <-w.clock.After(pause):
		}
	}
}

// served reports whether the API server serves GPUQueues.
func (w *Watcher) served() (bool, error) {
	list, err := w.discovery.ServerResourcesForGroupVersion(v1.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource {
			return true, nil
		}
	}
	return false, nil
}

// follow watches GPUQueues for as long as they are served.
func (w *Watcher) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logger := klog.FromContext(ctx)
	logger.Info("Watching GPUQueues")
	factory := externalversions.NewSharedInformerFactoryWithOptions(w.client, 0, externalversions.WithTransform(informer.WithoutManagedFields))
	queues := factory.Falldio().V1().GPUQueues()
	shared := queues.Informer()
	err := shared.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		switch {
		case apierrors.IsNotFound(err):
			cancel()
		case apierrors.IsForbidden(err) && !shared.HasSynced():
			w.listener(NewState(nil, w.labelsOf)) // as if there were none, rather than stopping everybody
		}
	})
	var synced cache.InformerSynced
	if err == nil {
		synced, err = informer.Handle(ctx, shared, cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { w.signal() },
			UpdateFunc: func(any, any) { w.signal() },
			DeleteFunc: func(any) { w.signal() },
		})
	}
	if err != nil {
		logger.Error(err, "GPUQueues can't be watched")
		return
	}
	var running sync.WaitGroup
	running.Go(func() { shared.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), synced) {
		w.signal()
		w.publish(ctx, queues.Lister())
	}
	running.Wait()
}

// publish passes on the State whenever it has changed.
func (w *Watcher) publish(ctx context.Context, lister listers.GPUQueueLister) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		}
		objects, err := lister.List(labels.Everything())
		if err != nil {
			klog.FromContext(ctx).Error(err, "GPUQueues can't be listed")
			continue
		}
		w.listener(NewState(objects, w.labelsOf))
		select {
		case <-ctx.Done():
		case <-w.clock.After(settlePeriod):
		}
	}
}

// labelsOf returns the labels of a namespace; none if it is not known.
func (w *Watcher) labelsOf(name string) map[string]string {
	namespace, err := w.namespaces.Get(name)
	if err != nil {
		return nil
	}
	return namespace.Labels
}
