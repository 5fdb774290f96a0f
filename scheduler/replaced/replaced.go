// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replaced makes informers of Pods say what has happened when a Pod has taken the name of
// another one while nobody was looking: that one Pod is gone and another one has come.
//
// An informer that has lost its watch, as after a restart of the API server, lists the objects anew. If a
// Pod was deleted meanwhile and another one of its name created, as controllers with fixed names do, it
// reports one update. kube-scheduler 1.37 takes that for a Pod that has changed its node, concludes that
// its cache is corrupted, and exits (UpdatePod in pkg/scheduler/backend/cache).
package replaced

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	corev1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Factory returns a factory whose informer of Pods tells Pods of the same name apart.
func Factory(of informers.SharedInformerFactory) informers.SharedInformerFactory { return factory{of} }

type factory struct {
	informers.SharedInformerFactory
}

func (f factory) Core() core.Interface { return group{f.SharedInformerFactory.Core()} }

type group struct{ core.Interface }

func (g group) V1() corev1.Interface { return version{g.Interface.V1()} }

type version struct{ corev1.Interface }

func (v version) Pods() corev1.TypedPodInformer {
	return corev1.ToTypedPodInformer(pods{v.Interface.Pods()})
}

type pods struct{ corev1.PodInformer }

func (p pods) Informer() cache.SharedIndexInformer { return Informer(p.PodInformer.Informer()) }

// Informer returns an informer that tells objects of the same name apart.
func Informer(of cache.SharedIndexInformer) cache.SharedIndexInformer { return informer{of} }

type informer struct{ cache.SharedIndexInformer }

func (i informer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandler(split{handler})
}

func (i informer) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(split{handler}, period)
}

func (i informer) AddEventHandlerWithOptions(handler cache.ResourceEventHandler, options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	return i.SharedIndexInformer.AddEventHandlerWithOptions(split{handler}, options)
}

// split turns an update from one object to another one into a deletion and an addition.
type split struct{ cache.ResourceEventHandler }

func (s split) OnUpdate(before, after any) {
	old, isOld := before.(metav1.Object)
	current, isCurrent := after.(metav1.Object)
	if !isOld || !isCurrent || old.GetUID() == current.GetUID() {
		s.ResourceEventHandler.OnUpdate(before, after)
		return
	}
	// As for any deletion that was missed: the last state is not known.
	key := cache.NewObjectName(old.GetNamespace(), old.GetName()).String()
	s.OnDelete(cache.DeletedFinalStateUnknown{Key: key, Obj: before})
	s.OnAdd(after, false)
}
