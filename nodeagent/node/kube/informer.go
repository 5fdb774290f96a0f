// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/informer"
)

// NewInformer returns an informer for the metadata of all objects of a resource that match a
// field selector; an empty one matches all. It drops managed fields. Package metadatainformer of client-go
// does the same, but links all of client-go's types, with which the agent would need some MiB more.
func NewInformer(client metadata.Interface, resource schema.GroupVersionResource, fieldSelector string) (cache.SharedIndexInformer, error) {
	objects := client.Resource(resource)
	listWatch := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = fieldSelector
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = fieldSelector
			return objects.Watch(ctx, options)
		},
	}
	objectInformer := cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(listWatch, client),
		&metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	return objectInformer, objectInformer.SetTransform(informer.WithoutManagedFields)
}
