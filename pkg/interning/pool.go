// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interning keeps one of several equal values, so that thousands of objects can share
// it.
package interning

// Pool has each value once. It is not safe for concurrent use.
type Pool[K comparable, V any] struct {
	limit  int
	values map[K]V
}

// NewPool returns a Pool of at most so many values. When there are more, it begins again: values
// that are in use stay where they are, and are shared no longer with new ones.
func NewPool[K comparable, V any](limit int) Pool[K, V] {
	return Pool[K, V]{limit: limit, values: map[K]V{}}
}

// Intern returns the value with an equal key that the pool has, or else adds this one.
func (p *Pool[K, V]) Intern(key K, value V) V {
	if known, found := p.values[key]; found {
		return known
	}
	if len(p.values) >= p.limit {
		clear(p.values)
	}
	p.values[key] = value
	return value
}
