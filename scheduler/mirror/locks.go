// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// locks of a Mirror. A search for places of a large gang may take seconds, in which kube-scheduler's filters are asked.
// It changes the engine's cluster only, and undoes that; neither Bindings nor events may wait for it.
type locks struct {
	// mu is held by those who use the engine's cluster. state is held as well by those who change anything else, and by
	// those who only read that.
	mu    sync.Mutex
	state sync.RWMutex
	// released are places that are given back as soon as nobody uses the engine's cluster.
	released releases
}

// releases are Pods whose places are to be given back.
type releases struct {
	mu   sync.Mutex
	pods []types.UID
}

func (r *releases) add(pods []types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = append(r.pods, pods...)
}

func (r *releases) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pods) > 0
}

func (r *releases) take() (pods []types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pods, r.pods = r.pods, nil
	return pods
}

// lock is for changes of the Mirror.
func (m *Mirror) lock() {
	m.lockEngine()
	m.state.Lock()
}

func (m *Mirror) unlock() {
	m.state.Unlock()
	m.unlockEngine()
}

// lockEngine is for those who change nothing but the engine's cluster.
func (m *Mirror) lockEngine() {
	m.mu.Lock()
	m.settle()
}

func (m *Mirror) unlockEngine() {
	m.settle()
	m.mu.Unlock()
	m.settleIfFree() // something may have been released since
}

// settleIfFree is settle for those who have not locked the engine. If others have, they do it.
func (m *Mirror) settleIfFree() {
	for m.released.any() && m.mu.TryLock() {
		m.settle()
		m.mu.Unlock()
	}
}

// settle gives back the places that were released meanwhile. It is for those who have locked the engine.
func (m *Mirror) settle() {
	pods := m.released.take()
	if len(pods) == 0 {
		return
	}
	m.state.Lock()
	defer m.state.Unlock()
	for _, uid := range pods {
		m.give(uid)
	}
}
