// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import (
	"testing"
	"time"
)

func TestASearchThatWasTooShortIsFollowedByALongerOne(t *testing.T) {
	t.Parallel()
	s, now := &searches{}, time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, want := range []time.Duration{1, 2, 4, 6, 6} {
		s.begin()
		first := s.deadline("large", 1000, now)
		if got := first.Sub(now); got != want*time.Second {
			t.Errorf("a search may take %v, want %d s", got, want)
		}
		second := s.deadline("large", 1000, first)
		third := s.deadline("large", 1000, second)
		if fourth := s.deadline("large", 1000, third); fourth != third {
			t.Errorf("a fourth search of an attempt may take %v", fourth.Sub(third))
		}
		if other := s.deadline("small", 1, now).Sub(now); other != SearchLimit+memberLimit {
			t.Errorf("a search for a Pod may take %v", other)
		}
		s.ended("large", 1000, false)
	}
	for _, want := range []time.Duration{220, 440, 880, 1760, 3520, 6000, 6000} {
		s.begin()
		if got := s.deadline("small", 1, now).Sub(now); got != want*time.Millisecond {
			t.Errorf("a search for a Pod may take %v, want %d ms", got, want)
		}
		s.ended("small", 1, false)
	}
	s.ended("small", 1, true)
	if s.ended("large", 1000, true); len(s.limits) > 0 {
		t.Errorf("kept after a search that was long enough: %v", s.limits)
	}
}
