// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package interning

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// MaxLists is how many different lists of resources, or of something else in Pods, are kept to be shared.
	MaxLists = 4096
	// MaxKey is the length of the longest key of a list that is kept to be shared: longer ones are rare, unless somebody wants to fill the
	// memory.
	MaxKey = 1024
)

// ResourceLists has each list of resources once. It is not safe for concurrent use.
type ResourceLists struct {
	pool Pool[string, corev1.ResourceList]
}

// NewResourceLists returns ResourceLists that have none.
func NewResourceLists() ResourceLists {
	return ResourceLists{NewPool[string, corev1.ResourceList](MaxLists)}
}

// Intern returns a list that is equal to the given one. Objects in caches are never changed, so they can share them.
func (l *ResourceLists) Intern(list corev1.ResourceList) corev1.ResourceList {
	key := keyOf(list)
	if len(key) > MaxKey {
		return list
	}
	return l.pool.Intern(key, list)
}

// keyOf has the resources in the order of their names. Nil and empty lists differ.
func keyOf(list corev1.ResourceList) string {
	if list == nil {
		return ""
	}
	key := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		key = append(append(key, name...), '=')
		key = append(append(key, quantity.String()...), ',')
	}
	return string(key)
}
