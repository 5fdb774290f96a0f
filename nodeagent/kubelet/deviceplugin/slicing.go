// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Slicing configures how MIG slices are allocated. The slices of one profile are a resource.
type Slicing struct {
	// GPUs returns the GPU that each slice of the node is a part of, whatever its profile, by
	// the slices' UUIDs. The map must not be modified.
	GPUs func() map[string]string
}

// slicing allocates MIG slices.
//
// To a container, slices of one profile are interchangeable: they have the same multiprocessors
// and memory, no NVLink, and are isolated from each other, so that it doesn't matter either who
// has the others. So the scheduler need not choose, and it does no harm that the kubelet may take
// others than those that are preferred. It matters to administrators: a GPU can be divided
// anew only when none of its slices is in use.
type slicing struct {
	whole
	gpus func() map[string]string
}

var _ allocator = &slicing{}

func (s *slicing) gpuOf() map[string]string { return s.gpus() }

// choose takes slices of GPUs of which slices are in use already, and of as few others as
// possible. Slices that are assigned to others come last, and those that somebody else has given
// out only if there are too few others: Allocate would refuse them.
func (s *slicing) choose(list *listing, r *request, assigned *assignedDevices, used inUse) ([]string, error) {
	gpus := s.gpus()
	if len(r.available) < r.size {
		return nil, fmt.Errorf("%d slices can't be chosen: %d are available", r.size, len(r.available))
	}
	unclaimed := r.without(func(id string) bool { return used.claimed(id, true) || used.any(gpus[id]) })
	chosen, taken, ofOthers := slices.Clone(r.must), sets.New(r.must...), assigned.ids()
	busy := map[string]bool{}
	for id := range sets.KeySet(used).Union(taken) {
		busy[gpus[id]] = true
	}
	for _, wanted := range []struct{ busy, ofOthers bool }{{true, false}, {false, false}, {true, true}, {false, true}} {
		groups := map[string][]string{}
		for _, id := range list.sorted(unclaimed.available) {
			if !taken.Has(id) && busy[gpus[id]] == wanted.busy && ofOthers.Has(id) == wanted.ofOthers {
				groups[gpus[id]] = append(groups[gpus[id]], id)
			}
		}
		chosen = append(chosen, fewest(groups, r.size-len(chosen))...)
	}
	return list.sorted(chosen), nil
}

// fewest takes slices, grouped by GPU, from as few GPUs as possible; from the last of them, those
// of the GPU that has the fewest left over. It takes all if they do not suffice.
func fewest(groups map[string][]string, size int) []string {
	// The most slices first.
	ordered := slices.SortedFunc(maps.Values(groups), func(a, b []string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a[0], b[0])) })
	var taken []string
	for len(taken) < size && len(ordered) > 0 {
		left := size - len(taken)
		place := 0
		for i, group := range ordered {
			if len(group) >= left && len(group) < len(ordered[place]) {
				place = i
			}
		}
		taken = append(taken, ordered[place][:min(left, len(ordered[place]))]...)
		ordered = slices.Delete(ordered, place, place+1)
	}
	return taken
}
