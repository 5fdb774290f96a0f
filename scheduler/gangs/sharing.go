// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/interning"
)

// maxShared is how many different selectors or preferences are kept to be shared.
const maxShared = 4096

// sharing keeps one of several equal selectors and preferences: most Pods of a large cluster
// have the same ones.
type sharing struct {
	selectors   interning.Pool[string, placement.Selector]
	preferences interning.Pool[string, placement.Preference]
}

func newSharing() sharing {
	return sharing{
		selectors:   interning.NewPool[string, placement.Selector](maxShared),
		preferences: interning.NewPool[string, placement.Preference](maxShared),
	}
}

// share replaces what a shape has by what equal shapes have.
func (s *sharing) share(shape *placement.Shape) {
	if shape.Selector != nil {
		shape.Selector = s.selectors.Intern(shape.Selector.Key(), shape.Selector)
	}
	if shape.Preference != nil {
		shape.Preference = s.preferences.Intern(shape.Preference.Key(), shape.Preference)
	}
}
