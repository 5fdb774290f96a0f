// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import "slices"

// oracle evaluates every set, with the objectives spelled out one after
// another.
type oracle struct {
	devices                []Device
	links                  [][]int
	available, must, avoid map[int]bool
}

func (o *oracle) best(size int) []int {
	var best []int
	var bestCost []int
	for mask := range 1 << len(o.devices) {
		set := map[int]bool{}
		var list []int
		for place := range o.devices {
			if mask&(1<<place) != 0 {
				set[place] = true
				list = append(list, place)
			}
		}
		if len(list) != size || !o.valid(set) {
			continue
		}
		cost := append(o.cost(set), list...)
		if best == nil || slices.Compare(cost, bestCost) < 0 {
			best, bestCost = list, cost
		}
	}
	return best
}

func (o *oracle) valid(set map[int]bool) bool {
	for place := range set {
		if !o.available[place] {
			return false
		}
	}
	for place := range o.must {
		if !set[place] {
			return false
		}
	}
	return true
}

func (o *oracle) free(place int) bool {
	return o.available[place] && (!o.avoid[place] || o.must[place])
}

func (o *oracle) cost(set map[int]bool) []int {
	avoided := 0
	numa := map[int]bool{}
	for place := range set {
		if !o.free(place) {
			avoided++
		}
		numa[o.devices[place].NUMANode] = true
	}
	numaLeft := 0
	for place := range o.devices {
		if o.left(set, place) && numa[o.devices[place].NUMANode] {
			numaLeft++
		}
	}
	groups, broken, left := o.groups(set)
	inside := o.linksAmong(func(place int) bool { return set[place] })
	outside := o.linksAmong(func(place int) bool { return o.left(set, place) })
	return []int{avoided, groups, broken, left, -inside, len(numa), -outside, numaLeft}
}

// left reports whether a free device is not in the set.
func (o *oracle) left(set map[int]bool, place int) bool { return o.free(place) && !set[place] }

// groups counts the groups that a set uses, those that it breaks, and what it
// leaves of them.
func (o *oracle) groups(set map[int]bool) (used, broken, left int) {
	seen := map[int]bool{}
	for place := range set {
		group := o.devices[place].Group
		if group != Unknown && seen[group] {
			continue
		}
		seen[group] = true
		used++
		if group == Unknown {
			continue
		}
		whole, all := true, true
		for other := range o.devices {
			if o.devices[other].Group != group {
				continue
			}
			whole = whole && o.free(other)
			all = all && set[other]
			if o.left(set, other) {
				left++
			}
		}
		if whole && !all {
			broken++
		}
	}
	return used, broken, left
}

func (o *oracle) linksAmong(member func(place int) bool) int {
	links := 0
	for a := range o.links {
		for b := range a {
			if member(a) && member(b) {
				links += o.links[a][b]
			}
		}
	}
	return links
}
