// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trimming makes objects small for the caches of gpu-controller, gpu-scheduler and kubectl-gputask. Of a Pod's
// spec, the commands, environments, probes and mounts of containers matter to the kubelet only, and many Pods have
// equal requests. Without them, 100,000 Pods need about half of the memory. Pods and Nodes in such caches are never
// written back as a whole.
package trimming

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"falldio.github.io/gpu-controller/pkg/informer"
	"falldio.github.io/gpu-controller/pkg/interning"
)

// Trimmer trims the objects of informers, which share what is equal. It is safe for concurrent use.
type Trimmer struct {
	mu          sync.Mutex
	trim        func(t *Trimmer, object any)
	lists       interning.Pool[string, corev1.ResourceList]
	tolerations interning.Pool[string, []corev1.Toleration]
}

// ForController returns a Trimmer for the caches of gpu-controller, and of kubectl-gputask, which shows why it decides.
func ForController() *Trimmer { return newTrimmer((*Trimmer).trimForController) }

// ForScheduler returns a Trimmer for the caches of gpu-scheduler.
func ForScheduler() *Trimmer { return newTrimmer((*Trimmer).trimForScheduler) }

func newTrimmer(trim func(*Trimmer, any)) *Trimmer {
	return &Trimmer{
		trim: trim, lists: interning.NewPool[string, corev1.ResourceList](maxShared), tolerations: interning.NewPool[string, []corev1.Toleration](maxShared),
	}
}

// Transform trims an object; it is a cache.TransformFunc. It changes the object, which
// nobody else knows yet.
func (t *Trimmer) Transform(object any) (any, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trim(t, object)
	return informer.WithoutManagedFields(object)
}

var _ cache.TransformFunc = (&Trimmer{}).Transform
