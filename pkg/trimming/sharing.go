// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trimming

import (
	"encoding/json"
	"maps"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxShared is how many different lists of a kind are kept to be shared.
	maxShared = 4096
	// maxKey is the length of the longest key of a list that is kept to be shared: longer ones are rare, unless
	// somebody wants to fill the memory.
	maxKey = 1024
)

func (t *Trimmer) shareResources(r *corev1.ResourceRequirements) {
	r.Requests, r.Limits = t.sharedList(r.Requests), t.sharedList(r.Limits)
}

// sharedList returns an equal list of resources, of which there is one.
func (t *Trimmer) sharedList(list corev1.ResourceList) corev1.ResourceList {
	key := keyOf(list)
	if len(key) > maxKey {
		return list
	}
	return t.lists.Intern(key, list)
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

// sharedTolerations returns an equal list of tolerations, of which there is one.
func (t *Trimmer) sharedTolerations(list []corev1.Toleration) []corev1.Toleration {
	key, err := json.Marshal(list)
	if err != nil || len(key) > maxKey { // tolerations can always be encoded
		return list
	}
	return t.tolerations.Intern(string(key), list)
}

// sharedString returns an equal string, of which there is one.
func sharedString(text string) string { return unique.Make(text).Value() }

// trimmed returns the elements without those to drop, with no memory for the latter.
func trimmed[T any](list []T, drop func(T) bool) []T {
	if !slices.ContainsFunc(list, drop) {
		return list
	}
	var kept []T
	for _, element := range list {
		if !drop(element) {
			kept = append(kept, element)
		}
	}
	return kept
}

// exact returns a slice without room for more.
func exact[T any](list []T) []T {
	if len(list) == cap(list) {
		return list
	}
	return append(make([]T, 0, len(list)), list...)
}
