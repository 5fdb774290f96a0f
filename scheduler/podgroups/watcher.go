// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroups watches the PodGroups that Kubernetes and other schedulers define gangs
// by, where the API server serves them.
package podgroups

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// Listener is told what there is.
type Listener interface {
	// SetGroups is called when it has become known which PodGroups an API has.
	SetGroups(api snapshot.GroupAPI, state gangs.GroupsState)
	// ObserveGroup is called when a PodGroup was added or has changed.
	ObserveGroup(ref snapshot.GroupRef, group snapshot.PodGroup)
	// ForgetGroup is called when a PodGroup is gone.
	ForgetGroup(ref snapshot.GroupRef)
}

const (
	resource = "podgroups"
	// discoveryTimeout bounds a request.
	discoveryTimeout = 15 * time.Second
)

// versions are those of each API that are understood, the best first. The fields that
// count are the same in all versions of an API.
func versions() map[snapshot.GroupAPI][]string {
	return map[snapshot.GroupAPI][]string{
		snapshot.KubernetesGroups:         {"v1beta1", "v1alpha3", "v1alpha2"},
		snapshot.VolcanoGroups:            {"v1beta1"},
		snapshot.CoschedulingGroups:       {"v1alpha1"},
		snapshot.FormerCoschedulingGroups: {"v1alpha1"},
	}
}

// Run watches the PodGroups of all APIs until ctx ends.
func Run(ctx context.Context, config *rest.Config, clock clock.Clock, listener Listener) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	brief := rest.CopyConfig(config)
	brief.Timeout = discoveryTimeout
	looker, err := discovery.NewDiscoveryClientForConfig(brief)
	if err != nil {
		return err
	}
	var watchers sync.WaitGroup
	for api, versions := range versions() {
		w := &watcher{
			api: api, versions: versions, discovery: looker, client: client, clock: clock, listener: listener,
			known: map[snapshot.GroupRef]bool{},
		}
		watchers.Go(func() { w.run(ctx) })
	}
	watchers.Wait()
	return nil
}

// watcher watches the PodGroups of one API.
type watcher struct {
	api       snapshot.GroupAPI
	versions  []string
	discovery informer.Discoverer
	client    dynamic.Interface
	clock     clock.Clock
	listener  Listener
	// lookPeriod and retryPeriod are for tests: see informer.Optional.
	lookPeriod, retryPeriod time.Duration
	// served is the version that was found last.
	served string

	mu sync.Mutex
	// known are the PodGroups that the listener knows, with true for those that the present
	// watch has shown.
	known map[snapshot.GroupRef]bool
}

func (w *watcher) run(ctx context.Context) {
	(&informer.Optional{
		API: resource + "." + string(w.api), Clock: w.clock, LookPeriod: w.lookPeriod, RetryPeriod: w.retryPeriod,
		Look: w.look, Absent: w.absent, Follow: w.follow,
	}).Run(ctx)
}

// look reports whether the API is served, and finds the best version of it.
func (w *watcher) look(context.Context) (bool, error) {
	for _, version := range w.versions {
		if serves, err := informer.Serves(w.discovery, string(w.api)+"/"+version, resource); serves || err != nil {
			w.served = version
			return serves, err
		}
	}
	return false, nil
}

func (w *watcher) absent() {
	w.startOver()
	w.forgetOthers()
	w.listener.SetGroups(w.api, gangs.GroupsAbsent)
}

// follow watches the version that was found for as long as it is served.
func (w *watcher) follow(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	logger := klog.FromContext(ctx)
	logger.Info("Watching PodGroups", "api", w.api, "version", w.served)
	gvr := schema.GroupVersionResource{Group: string(w.api), Version: w.served, Resource: resource}
	groups := dynamicinformer.NewFilteredDynamicInformer(w.client, gvr, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	var synced cache.InformerSynced
	err := informer.WatchFailures(groups, cancel, func() { w.listener.SetGroups(w.api, gangs.GroupsForbidden) })
	if err == nil {
		err = groups.SetTransform(onlySpec)
	}
	if err == nil {
		synced, err = informer.Handle(ctx, groups, cache.ResourceEventHandlerFuncs{
			AddFunc:    w.observe,
			UpdateFunc: func(_, object any) { w.observe(object) },
			DeleteFunc: w.forget,
		})
	}
	if err != nil {
		logger.Error(err, "PodGroups can't be watched", "api", w.api)
		return
	}
	w.startOver()
	var running sync.WaitGroup
	running.Go(func() { groups.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), synced) {
		w.forgetOthers()
		w.listener.SetGroups(w.api, gangs.GroupsListed)
	}
	running.Wait()
}

// onlySpec is a transform that drops what is not needed, to save memory.
func onlySpec(object any) (any, error) {
	if group, ok := object.(*unstructured.Unstructured); ok {
		group.SetManagedFields(nil)
		group.SetAnnotations(nil)
		unstructured.RemoveNestedField(group.Object, "status")
	}
	return object, nil
}

func (w *watcher) refOf(object any) (ref snapshot.GroupRef, group *unstructured.Unstructured) {
	group, ok := informer.LastKnown(object).(*unstructured.Unstructured)
	if !ok {
		return ref, nil
	}
	return snapshot.GroupRef{API: w.api, Namespace: group.GetNamespace(), Name: group.GetName()}, group
}

func (w *watcher) observe(object any) {
	ref, group := w.refOf(object)
	if group == nil {
		return
	}
	w.mu.Lock()
	w.known[ref] = true
	w.mu.Unlock()
	w.listener.ObserveGroup(ref, snapshot.ReadPodGroup(w.api, group.Object))
}

func (w *watcher) forget(object any) {
	ref, group := w.refOf(object)
	if group == nil {
		return
	}
	w.mu.Lock()
	delete(w.known, ref)
	w.mu.Unlock()
	w.listener.ForgetGroup(ref)
}

// startOver marks all PodGroups as not shown.
func (w *watcher) startOver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ref := range w.known {
		w.known[ref] = false
	}
}

// forgetOthers has the listener forget the PodGroups that were not shown since startOver.
func (w *watcher) forgetOthers() {
	w.mu.Lock()
	var gone []snapshot.GroupRef
	for ref, shown := range w.known {
		if !shown {
			gone = append(gone, ref)
			delete(w.known, ref)
		}
	}
	w.mu.Unlock()
	for _, ref := range gone {
		w.listener.ForgetGroup(ref)
	}
}
