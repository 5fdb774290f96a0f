// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package informer has what all our informers have in common.
package informer

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// WithoutManagedFields is a transform that drops managed fields to save memory in caches.
func WithoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// LastKnown returns the object passed to a handler, or the last known state of one whose
// deletion the informer missed.
func LastKnown(object any) any {
	if tombstone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return tombstone.Obj
	}
	return object
}

// Handle adds a handler that logs with the logger of ctx. The returned function reports
// whether the handler has processed the initial list.
func Handle(ctx context.Context, informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) (cache.InformerSynced, error) {
	logger := klog.FromContext(ctx)
	registration, err := informer.AddEventHandlerWithOptions(handler, cache.HandlerOptions{Logger: &logger})
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}

// OnAnyChange adds a handler for every change of an object, and whether that was its deletion. The returned
// function is that of Handle.
func OnAnyChange[T any](ctx context.Context, informer cache.SharedIndexInformer, changed func(object T, deleted bool)) (cache.InformerSynced, error) {
	call := func(object any, deleted bool) {
		if typed, ok := LastKnown(object).(T); ok {
			changed(typed, deleted)
		}
	}
	return Handle(ctx, informer, cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { call(object, false) },
		UpdateFunc: func(_, object any) { call(object, false) },
		DeleteFunc: func(object any) { call(object, true) },
	})
}
