// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"slices"
)

// interned has each value once, by its key. Caches refer to values by their numbers, so that they keep none that was
// dropped.
type interned[T any] struct {
	known map[string]*T
	// last is the number of the last value that was made. Numbers are never reused.
	last int
}

// intern returns the one value with a key, which it makes with the next number if there is none.
func (i *interned[T]) intern(key string, create func(id int) *T) *T {
	if value := i.known[key]; value != nil {
		return value
	}
	if i.known == nil {
		i.known = map[string]*T{}
	}
	i.last++
	created := create(i.last)
	i.known[key] = created
	return created
}

// drop drops the values that nobody uses.
func (i *interned[T]) drop(unused func(*T) bool) {
	maps.DeleteFunc(i.known, func(_ string, value *T) bool { return unused(value) })
}

// SweepRequests drops the requests whose shapes nobody has asked for since the last sweep, except those to be kept,
// with their selectors and preferences: else each shape that was ever asked for would stay. It must not be called while
// requests are told apart by their addresses.
func (c *Cluster) SweepRequests(keep func(*Request) bool) {
	c.dropRequests(keep)
	for _, empty := range []*Cluster{c.imagined.empty.cluster, c.imagined.opened.cluster} { // they have the same selectors and preferences
		if empty != nil {
			empty.dropRequests(func(*Request) bool { return false })
		}
	}
	c.selectors.drop(func(s *selector) bool {
		used := s.used
		s.used = false
		return !used
	})
	c.preferences.drop(func(p *preference) bool {
		used := p.used
		p.used = false
		return !used
	})
}

// dropRequests drops requests that nobody has used, and what is cached about States without nodes. It marks the
// selectors and preferences of the others.
func (c *Cluster) dropRequests(keep func(*Request) bool) {
	c.requests.drop(func(r *Request) bool {
		if r.used < c.sweeps && !keep(r) {
			c.requestSize -= r.size
			return true
		}
		if r.selector != nil {
			r.selector.used = true
		}
		if r.preference != nil {
			r.preference.used = true
		}
		return false
	})
	c.sweeps++
	for _, s := range c.states {
		if s.users == 0 {
			s.offers = nil
		}
	}
}

// Requests returns how many requests are kept, and their size in bytes.
func (c *Cluster) Requests() (count, size int) { return len(c.requests.known), c.requestSize }

// slotOf returns the slot for an id in a cache of at most that many slots, which grows as needed.
func slotOf[T any](cache *[]T, id, most int) *T {
	slot := id % most
	if slot >= len(*cache) {
		*cache = slices.Grow(*cache, slot+1-len(*cache))[:slot+1]
	}
	return &(*cache)[slot]
}
