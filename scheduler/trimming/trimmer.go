// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trimming

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Trimmer trims the objects of informers. It is safe for concurrent use.
type Trimmer struct {
	mu          sync.Mutex
	lists       pool[corev1.ResourceList]
	tolerations pool[[]corev1.Toleration]
}

// New returns a Trimmer.
func New() *Trimmer {
	return &Trimmer{lists: newPool(appendList), tolerations: newPool(appendTolerations)}
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

// poolSize is how many different values a pool keeps. When there are more, it begins anew.
const poolSize = 4096

// pool keeps one of several equal values. Objects in caches are never changed, so they can
// share them.
type pool[T any] struct {
	appendKey func(key []byte, value T) []byte
	values    map[string]T
	key       []byte
}

func newPool[T any](appendKey func([]byte, T) []byte) pool[T] {
	return pool[T]{appendKey: appendKey, values: map[string]T{}}
}

// shared returns a value that is equal to the given one.
func (p *pool[T]) shared(value T) T {
	p.key = p.appendKey(p.key[:0], value)
	if known, found := p.values[string(p.key)]; found {
		return known
	}
	if len(p.values) >= poolSize {
		clear(p.values)
	}
	p.values[string(p.key)] = value
	return value
}

// appendList appends resources in the order of their names. Nil and empty lists differ.
func appendList(key []byte, list corev1.ResourceList) []byte {
	if list == nil {
		return key
	}
	key = append(key, '{')
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		key = append(append(key, name...), '=')
		key = append(append(key, quantity.String()...), ',')
	}
	return key
}

func appendTolerations(key []byte, list []corev1.Toleration) []byte {
	buffer := bytes.NewBuffer(key)
	if err := json.NewEncoder(buffer).Encode(list); err != nil {
		return key // can't happen: tolerations can be encoded
	}
	return buffer.Bytes()
}
