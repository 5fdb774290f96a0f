// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expectations tracks what a process has written and its caches don't show yet. A
// decision made before they do would repeat work, or start from a stale status.
//
// Correctness does not depend on it, since it is lost with the process: creations are
// protected by fixed names, updates by resource versions.
package expectations

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
)

// Timeout is how long a write is expected to show up: much longer than watches lag behind,
// and short enough that a lost event does no harm.
const Timeout = 30 * time.Second

// Expectations are the writes that caches are expected to show, by the keys of the objects
// that they were made for.
type Expectations[K comparable] struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	byKey map[K]*writes
}

// writes are the expected writes for one key.
type writes struct {
	// creations are the names of objects that were created.
	creations sets.Set[string]
	// version is the resource version after the last update, empty once it was observed.
	version string
	// since is the time of the last write.
	since time.Time
}

// New returns empty expectations.
func New[K comparable](clock clock.PassiveClock) *Expectations[K] {
	return &Expectations[K]{clock: clock, byKey: map[K]*writes{}}
}

// ExpectCreation is called before an object is created, since its event may arrive before
// the request returns.
func (e *Expectations[K]) ExpectCreation(key K, name string) {
	e.expect(key, func(w *writes) { w.creations.Insert(name) })
}

// ObserveCreation is called for every event of a created object, and when its creation
// failed.
func (e *Expectations[K]) ObserveCreation(key K, name string) {
	e.observe(key, func(w *writes) { w.creations.Delete(name) })
}

// ExpectVersion is called with the resource version that a write of an object returned.
func (e *Expectations[K]) ExpectVersion(key K, version string) {
	e.expect(key, func(w *writes) { w.version = version })
}

// ObserveVersion is called with the resource version of an object that the cache shows,
// or showed last.
func (e *Expectations[K]) ObserveVersion(key K, version string) {
	e.observe(key, func(w *writes) {
		if order, err := resourceversion.CompareResourceVersion(version, w.version); err != nil || order >= 0 {
			w.version = ""
		}
	})
}

// Forget drops everything about a key.
func (e *Expectations[K]) Forget(key K) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.byKey, key)
}

// Pending returns how long to wait at most until the caches show all writes for a key; 0
// if they do.
func (e *Expectations[K]) Pending(key K) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pending(key)
}

// AnyPending reports whether the caches don't show all writes yet.
func (e *Expectations[K]) AnyPending() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.byKey {
		if e.pending(key) > 0 {
			return true
		}
	}
	return false
}

// pending drops a key whose timeout has passed.
func (e *Expectations[K]) pending(key K) time.Duration {
	expected := e.byKey[key]
	if expected == nil {
		return 0
	}
	left := Timeout - e.clock.Since(expected.since)
	if left <= 0 {
		delete(e.byKey, key)
		return 0
	}
	return left
}

func (e *Expectations[K]) expect(key K, change func(*writes)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	expected := e.byKey[key]
	if expected == nil {
		expected = &writes{creations: sets.Set[string]{}}
		e.byKey[key] = expected
	}
	change(expected)
	expected.since = e.clock.Now()
}

// observe drops a key once all its writes were observed. Most events are not about writes
// of this process.
func (e *Expectations[K]) observe(key K, change func(*writes)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	expected := e.byKey[key]
	if expected == nil {
		return
	}
	change(expected)
	if len(expected.creations) == 0 && expected.version == "" {
		delete(e.byKey, key)
	}
}
