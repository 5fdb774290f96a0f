// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package optional watches APIs that a cluster may lack. It is apart from package informer, which the
// node agent uses, too: the dynamic client and its informers would cost the agent 2 MiB on each node.
package optional

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/informer"
)

// Availability says whether an API that a cluster may lack can be read.
type Availability int

// Whether an API that a cluster may lack can be read.
const (
	// Unknown: the API server has not said yet.
	Unknown Availability = iota
	// Absent: the cluster has no such API.
	Absent
	// Forbidden: there is one, but we may not read it.
	Forbidden
	// Listed: all objects are cached.
	Listed
)

// Watched is one of the resources of an API.
type Watched struct {
	Resource string
	// Namespace and Selector restrict what is watched; empty for everything.
	Namespace, Selector string
	// Transform is applied to objects before they are cached; nil for none.
	Transform cache.TransformFunc
	// Changed is called for every object that was added, changed or deleted; nil for nobody.
	Changed func(object *unstructured.Unstructured, deleted bool)
}

// API watches resources of an API that the cluster may lack, or that may be installed and
// removed at any time: see informer.Optional. It is safe for concurrent use.
type API struct {
	// LookPeriod and RetryPeriod are for tests: see informer.Optional.
	LookPeriod, RetryPeriod time.Duration

	version   schema.GroupVersion
	watched   []Watched
	client    dynamic.Interface
	discovery informer.Discoverer
	clock     clock.Clock
	changed   func()

	mu     sync.Mutex
	state  Availability
	stores map[string]cache.Store
}

// New returns an API that watches nothing before it runs. changed is called when the
// availability has changed.
func New(client dynamic.Interface, discovery informer.Discoverer, clock clock.Clock, version schema.GroupVersion, changed func(), watched ...Watched) *API {
	return &API{version: version, watched: watched, client: client, discovery: discovery, clock: clock, changed: changed}
}

// Run watches until ctx ends.
func (o *API) Run(ctx context.Context) {
	var resources []string
	for i := range o.watched {
		resources = append(resources, o.watched[i].Resource)
	}
	(&informer.Optional{
		API: o.version.String(), Clock: o.clock, LookPeriod: o.LookPeriod, RetryPeriod: o.RetryPeriod,
		Look: func(context.Context) (bool, error) {
			return informer.Serves(o.discovery, o.version.String(), resources...)
		},
		Absent: func() { o.become(Absent, nil) },
		Follow: o.follow,
	}).Run(ctx)
}

// follow watches the resources for as long as they are served.
func (o *API) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	klog.FromContext(ctx).Info("Watching an optional API", "api", o.version)
	stores := make(map[string]cache.Store, len(o.watched))
	var synced []cache.InformerSynced
	var running sync.WaitGroup
	for i := range o.watched {
		one := &o.watched[i]
		resources := dynamicinformer.NewFilteredDynamicInformer(o.client, o.version.WithResource(one.Resource), one.Namespace, 0,
			cache.Indexers{}, func(list *metav1.ListOptions) { list.LabelSelector = one.Selector }).Informer()
		done, err := o.handle(ctx, cancel, resources, one)
		if err != nil {
			klog.FromContext(ctx).Error(err, "An optional API can't be watched", "api", o.version, "resource", one.Resource)
			return
		}
		stores[one.Resource], synced = resources.GetStore(), append(synced, done)
		running.Go(func() { resources.RunWithContext(ctx) })
	}
	if cache.WaitForCacheSync(ctx.Done(), synced...) {
		o.become(Listed, stores)
	}
	running.Wait()
}

// handle adds the handlers of a resource to its informer. It cancels the watch when the resource is
// no longer served.
func (o *API) handle(ctx context.Context, cancel func(), resources cache.SharedIndexInformer, one *Watched) (cache.InformerSynced, error) {
	if err := informer.WatchFailures(resources, cancel, func() { o.become(Forbidden, nil) }); err != nil {
		return nil, err
	}
	if one.Transform != nil {
		if err := resources.SetTransform(one.Transform); err != nil {
			return nil, err
		}
	}
	return informer.OnAnyChange(ctx, resources, func(object *unstructured.Unstructured, deleted bool) {
		if one.Changed != nil {
			one.Changed(object, deleted)
		}
	})
}

func (o *API) become(state Availability, stores map[string]cache.Store) {
	o.mu.Lock()
	before := o.state
	o.state, o.stores = state, stores
	o.mu.Unlock()
	if before != state {
		o.changed()
	}
}

// Availability returns whether the API can be read.
func (o *API) Availability() Availability {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state
}

// Get returns an object, which must not be changed; nil if there is none, or the API can't be read.
func (o *API) Get(resource, namespace, name string) *unstructured.Unstructured {
	store := o.store(resource)
	if store == nil {
		return nil
	}
	object, found, err := store.GetByKey(cache.NewObjectName(namespace, name).String())
	if err != nil || !found {
		return nil
	}
	typed, _ := object.(*unstructured.Unstructured)
	return typed
}

// List returns all objects of a resource, in no order. They must not be changed.
func (o *API) List(resource string) []*unstructured.Unstructured {
	store := o.store(resource)
	if store == nil {
		return nil
	}
	objects := store.List()
	list := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		if typed, ok := object.(*unstructured.Unstructured); ok {
			list = append(list, typed)
		}
	}
	return list
}

// Patch merges a change into an object, or into a subresource of it.
func (o *API) Patch(ctx context.Context, resource string, name cache.ObjectName, change map[string]any, subresources ...string) error {
	bytes, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = o.client.Resource(o.version.WithResource(resource)).Namespace(name.Namespace).
		Patch(ctx, name.Name, types.MergePatchType, bytes, metav1.PatchOptions{}, subresources...)
	return err
}

func (o *API) store(resource string) cache.Store {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stores[resource]
}
