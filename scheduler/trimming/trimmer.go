// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trimming

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/scheduler/interning"
)

// Trimmer trims the objects of informers. It is safe for concurrent use.
type Trimmer struct {
	mu          sync.Mutex
	lists       interning.Pool[string, corev1.ResourceList]
	tolerations interning.Pool[string, []corev1.Toleration]
}

// New returns a Trimmer.
func New() *Trimmer {
	return &Trimmer{lists: interning.NewPool[string, corev1.ResourceList](maxShared), tolerations: interning.NewPool[string, []corev1.Toleration](maxShared)}
}

// Transform trims an object; it is a cache.TransformFunc. It changes the object, which
// nobody else knows yet.
func (t *Trimmer) Transform(object any) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch object := object.(type) {
	case *corev1.Pod:
		t.trimPod(object)
	case *corev1.Node:
		object.ManagedFields = nil
	}
	return object, nil
}

var _ cache.TransformFunc = (&Trimmer{}).Transform

// maxShared is how many different lists of resources, or of tolerations, are kept to be shared.
const maxShared = 4096

// maxSharedKey is the length of the longest key of what is kept to be shared: longer ones are rare, unless somebody wants to fill the memory.
const maxSharedKey = 1024

// shareList returns a list that is equal to the given one. Objects in caches are never changed,
// so they can share them.
func (t *Trimmer) shareList(list corev1.ResourceList) corev1.ResourceList {
	key := keyOfList(list)
	if len(key) > maxSharedKey {
		return list
	}
	return t.lists.Intern(key, list)
}

func (t *Trimmer) shareTolerations(list []corev1.Toleration) []corev1.Toleration {
	key, err := json.Marshal(list)
	if err != nil || len(key) > maxSharedKey { // tolerations can always be encoded
		return list
	}
	return t.tolerations.Intern(string(key), list)
}

// keyOfList has the resources in the order of their names. Nil and empty lists differ.
func keyOfList(list corev1.ResourceList) string {
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
