// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package filters

import "time"

// The filters may be asked in one search for SearchLimit, and for memberLimit more for each Pod of the gang, but for
// UsualSearch at most. If that was not enough, the next search for the gang may take twice as long, up to
// LongestSearch. What they refused is remembered, so that the next attempt goes on where this one ended.
//
// All searches of an attempt together, for places and for Pods to preempt, have the time of SearchesOfAttempt: no more
// than what counts when it is decided how long the gang rests.
const (
	SearchLimit       = 200 * time.Millisecond
	memberLimit       = 20 * time.Millisecond
	UsualSearch       = time.Second
	LongestSearch     = 6 * time.Second
	SearchesOfAttempt = 3
)

// mostPatience bounds searches.limits, which has gangs that are gone until then.
const mostPatience = 1 << 12

// searches are how long filters may be asked. They are for the scheduling cycle only.
type searches struct {
	// limits are those of gangs whose last search took too long, by group.
	limits map[string]time.Duration
	// group is the gang whose attempt it is, and end when all its searches end.
	group string
	end   time.Time
}

// begin is called when an attempt for a gang begins.
func (s *searches) begin() { s.group = "" }

// deadline returns until when a search that begins now may take.
func (s *searches) deadline(group string, members int, now time.Time) time.Time {
	limit := s.limit(group, members)
	if s.group != group {
		s.group, s.end = group, now.Add(SearchesOfAttempt*limit)
	}
	return s.within(now.Add(limit))
}

// within returns a time, or when the attempt ends if that is earlier.
func (s *searches) within(until time.Time) time.Time {
	if until.After(s.end) {
		return s.end
	}
	return until
}

func (s *searches) limit(group string, members int) time.Duration {
	return max(min(SearchLimit+time.Duration(members)*memberLimit, UsualSearch), s.limits[group])
}

// ended records whether a search for places of a gang was long enough.
func (s *searches) ended(group string, members int, enough bool) {
	if enough {
		delete(s.limits, group)
		return
	}
	if s.limits == nil || len(s.limits) >= mostPatience {
		s.limits = map[string]time.Duration{}
	}
	s.limits[group] = min(2*s.limit(group, members), LongestSearch)
}
