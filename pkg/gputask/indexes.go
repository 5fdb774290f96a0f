// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gputask

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// indexSet is a set of member indexes. Its text form is that of a Job's
// status.completedIndexes: "0,2-4".
type indexSet map[int]struct{}

// parseIndexes parses the text form. It returns an error for text that String did not
// write.
func parseIndexes(text string) (indexSet, error) {
	set := indexSet{}
	if text == "" {
		return set, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.ParseUint(low, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("index %q: %w", part, err)
		}
		last, err := strconv.ParseUint(high, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("index %q: %w", part, err)
		}
		for i := first; i <= last; i++ {
			set.add(int(i))
		}
	}
	return set, nil
}

// containsIndex reports whether the text form of a set has an index.
func containsIndex(text string, index int) bool {
	for part := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		first, err := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err == nil && err2 == nil && first <= index && index <= last {
			return true
		}
	}
	return false
}

func (s indexSet) add(index int)      { s[index] = struct{}{} }
func (s indexSet) has(index int) bool { _, found := s[index]; return found }

// String returns the text form in ascending order, with runs of three or more as ranges.
func (s indexSet) String() string {
	sorted := slices.Sorted(maps.Keys(s))

	var parts []string
	for start := 0; start < len(sorted); {
		end := start
		for end+1 < len(sorted) && sorted[end+1] == sorted[end]+1 {
			end++
		}
		switch end - start {
		case 0:
			parts = append(parts, strconv.Itoa(sorted[start]))
		case 1:
			parts = append(parts, strconv.Itoa(sorted[start]), strconv.Itoa(sorted[end]))
		default:
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[start], sorted[end]))
		}
		start = end + 1
	}
	return strings.Join(parts, ",")
}
