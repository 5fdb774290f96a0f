// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import "falldio.github.io/gpu-controller/pkg/placement"

// sharing keeps one of several equal selectors and preferences, as long as any member has it: most Pods of a large
// cluster have the same ones.
type sharing struct {
	selectors   sharedBy[placement.Selector]
	preferences sharedBy[placement.Preference]
}

func newSharing() sharing {
	return sharing{selectors: sharedBy[placement.Selector]{}, preferences: sharedBy[placement.Preference]{}}
}

// share replaces what a shape has by what equal shapes have. Each call needs one of release.
func (s *sharing) share(shape *placement.Shape) {
	if shape.Selector != nil {
		shape.Selector = s.selectors.share(shape.Selector)
	}
	if shape.Preference != nil {
		shape.Preference = s.preferences.share(shape.Preference)
	}
}

// release is called when the member with a shape is gone.
func (s *sharing) release(shape *placement.Shape) {
	if shape.Selector != nil {
		s.selectors.release(shape.Selector)
	}
	if shape.Preference != nil {
		s.preferences.release(shape.Preference)
	}
}

// sharedBy has values by their keys, and counts who uses them.
type sharedBy[V interface{ Key() string }] map[string]*shared[V]

type shared[V any] struct {
	value V
	users int
}

// share returns the value with the same key.
func (s sharedBy[V]) share(value V) V {
	key := value.Key()
	known := s[key]
	if known == nil {
		known = &shared[V]{value: value}
		s[key] = known
	}
	known.users++
	return known.value
}

func (s sharedBy[V]) release(value V) {
	key := value.Key()
	if known := s[key]; known != nil {
		if known.users--; known.users == 0 {
			delete(s, key)
		}
	}
}
