// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package trimming

import (
	"encoding/json"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/interning"
)

// Trimmer trims the objects of informers. It is safe for concurrent use.
type Trimmer struct {
	mu          sync.Mutex
	lists       interning.ResourceLists
	tolerations interning.Pool[string, []corev1.Toleration]
}

// New returns a Trimmer.
func New() *Trimmer {
	return &Trimmer{lists: interning.NewResourceLists(), tolerations: interning.NewPool[string, []corev1.Toleration](interning.MaxLists)}
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

func (t *Trimmer) shareTolerations(list []corev1.Toleration) []corev1.Toleration {
	key, err := json.Marshal(list)
	if err != nil || len(key) > interning.MaxKey { // tolerations can always be encoded
		return list
	}
	return t.tolerations.Intern(string(key), list)
}
