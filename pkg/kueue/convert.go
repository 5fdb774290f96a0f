// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Read returns an object of Kueue's API. An error names the field that is not as expected.
func Read[T any](object *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return typed, nil
}

// Cache is the objects of Kueue's API that a process watches. Get returns nil if there is none.
type Cache interface {
	Get(resource, namespace, name string) *unstructured.Unstructured
}

// FlavorsIn returns what finds the ResourceFlavors of a cache.
func FlavorsIn(cache Cache) Flavors {
	return func(name string) *ResourceFlavor {
		object := cache.Get(ResourceFlavors, "", name)
		if object == nil {
			return nil
		}
		flavor, err := Read[ResourceFlavor](object)
		if err != nil {
			return nil // can't happen: the API server has checked it
		}
		return flavor
	}
}

// Unstructured returns a Workload as dynamic clients send it.
func (w *Workload) Unstructured() (*unstructured.Unstructured, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(w)
	if err != nil {
		return nil, err
	}
	delete(object, "status") // it is written by itself
	return &unstructured.Unstructured{Object: object}, nil
}
