// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimes

import (
	"encoding/json"
	"fmt"
	"slices"
)

// medianUse returns when the median group was used last.
func (h *History) medianUse() uint64 {
	times := make([]uint64, 0, len(h.groups))
	for _, group := range h.groups {
		times = append(times, group.used)
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// MarshalJSON implements json.Marshaler: a history survives the process that learned it.
func (h *History) MarshalJSON() ([]byte, error) {
	kept := make(map[string]Histogram, len(h.groups))
	for key, group := range h.groups {
		kept[key] = group.histogram
	}
	return json.Marshal(kept)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *History) UnmarshalJSON(data []byte) error {
	var kept map[string]Histogram
	if err := json.Unmarshal(data, &kept); err != nil {
		return err
	}
	groups := make(map[string]*groupOf, len(kept))
	for key, histogram := range kept {
		if histogram.Smallest <= 0 || len(histogram.Counts) > buckets {
			return fmt.Errorf("history: group %q: must have a positive smallest value and at most %d counts", key, buckets)
		}
		groups[key] = &groupOf{histogram: histogram}
	}
	*h = History{groups: groups}
	return nil
}
