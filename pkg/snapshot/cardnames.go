// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import "slices"

// Names returns the UUIDs of cards by their indices; nothing if the UUIDs of the node's
// cards are unknown.
func (c Cards) Names(indices []int) []string {
	if len(c.uuids) == 0 {
		return nil
	}
	names := make([]string, 0, len(indices))
	for _, index := range indices {
		if index >= 0 && index < len(c.uuids) {
			names = append(names, c.uuids[index])
		}
	}
	return names
}

// Listed returns the indices of cards by their UUIDs, in order; those that the node does not
// list are left out.
func (c Cards) Listed(uuids []string) []int {
	var indices []int
	for _, uuid := range uuids {
		if index, listed := c.indices[uuid]; listed {
			indices = append(indices, index)
		}
	}
	slices.Sort(indices)
	return slices.Compact(indices)
}

// Indices returns the indices of cards by their UUIDs; all is false if the node lacks one
// of them.
func (c Cards) Indices(uuids []string) (indices []int, all bool) {
	for _, uuid := range uuids {
		index, listed := c.indices[uuid]
		if !listed {
			return nil, false
		}
		indices = append(indices, index)
	}
	return indices, true
}
