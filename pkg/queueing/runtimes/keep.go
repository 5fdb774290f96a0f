// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Clone returns a copy with at most so many groups: those that were used last.
func (h *History) Clone(most int) *History {
	after := uint64(0)
	if len(h.groups) > most {
		after = h.uses()[len(h.groups)-most-1]
	}
	clone := &History{groups: make(map[string]*groupOf, min(len(h.groups), most)), clock: h.clock}
	for key, group := range h.groups {
		if len(h.groups) <= most || group.used > after {
			histogram := group.histogram
			histogram.Counts = slices.Clone(histogram.Counts)
			clone.groups[key] = &groupOf{histogram: histogram, used: group.used}
		}
	}
	return clone
}

// Groups returns the number of groups.
func (h *History) Groups() int { return len(h.groups) }

// uses returns when the groups were used last, in order.
func (h *History) uses() []uint64 {
	times := make([]uint64, 0, len(h.groups))
	for _, group := range h.groups {
		times = append(times, group.used)
	}
	slices.Sort(times)
	return times
}

// medianUse returns when the median group was used last.
func (h *History) medianUse() uint64 {
	times := h.uses()
	return times[len(times)/2]
}

// keptGroup is a group as it is written.
type keptGroup struct {
	Histogram
	Used uint64 `json:"used,omitempty"`
}

// MarshalJSON implements json.Marshaler: a history survives the process that learned it.
func (h *History) MarshalJSON() ([]byte, error) {
	kept := make(map[string]keptGroup, len(h.groups))
	for key, group := range h.groups {
		kept[key] = keptGroup{Histogram: group.histogram, Used: group.used}
	}
	return json.Marshal(kept)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *History) UnmarshalJSON(data []byte) error {
	var kept map[string]keptGroup
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	read := History{groups: make(map[string]*groupOf, len(kept))}
	for key, group := range kept {
		if err := group.check(); err != nil {
			return fmt.Errorf("history: group %q: %w", key, err)
		}
		if group.Used > math.MaxInt64 {
			return fmt.Errorf("history: group %q: used must be at most %d, so that it can be counted on from there", key, math.MaxInt64)
		}
		read.groups[key] = &groupOf{histogram: group.Histogram, used: group.Used}
		read.clock = max(read.clock, group.Used)
	}
	read.forget()
	*h = read
	return nil
}

// check returns what is wrong with a histogram that was read, and computes its total. Histograms
// begin at a second, or at the smallest part of a limit: with much less, or much more, numbers would
// be in no bucket, and buckets stand for no duration.
func (h *Histogram) check() error {
	if h.Smallest < smallestPart || h.Smallest > 1 || len(h.Counts) > buckets {
		return fmt.Errorf("must have a smallest value from %g to 1 and at most %d counts", smallestPart, buckets)
	}
	h.Total = 0
	for _, count := range h.Counts {
		if count < 0 || count > mostCounted {
			return fmt.Errorf("counts must be from 0 to %d", mostCounted)
		}
		h.Total += float64(count)
	}
	return nil
}
