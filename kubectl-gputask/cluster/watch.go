// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// ListerWatcher is the part of a typed client that an informer needs.
type ListerWatcher[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// NewInformer returns an informer for the objects that options select: an informer factory
// would link the informers of every API group. The clientset is the client's.
func NewInformer[L runtime.Object](clientset any, client ListerWatcher[L], example runtime.Object, options func(*metav1.ListOptions)) cache.SharedIndexInformer {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, list metav1.ListOptions) (runtime.Object, error) {
			options(&list)
			return client.List(ctx, list)
		},
		WatchFuncWithContext: func(ctx context.Context, list metav1.ListOptions) (watch.Interface, error) {
			options(&list)
			return client.Watch(ctx, list)
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, clientset), example, 0, cache.Indexers{})
}

// Everything selects all objects.
func Everything(*metav1.ListOptions) {}

// IsInterruption reports whether the error of a watch is worth telling: the API server also
// ends watches in normal operation.
func IsInterruption(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) &&
		!apierrors.IsResourceExpired(err) && !apierrors.IsGone(err)
}
