// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import "slices"

// oracle looks at every set there is, with the objectives spelled out one after
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
	avoided, broken, left := 0, 0, 0
	groups, numa := map[int]bool{}, map[int]bool{}
	lonely := 0
	for place := range set {
		if !o.free(place) {
			avoided++
		}
		numa[o.devices[place].NUMANode] = true
		if o.devices[place].Group == Unknown {
			lonely++
		} else {
			groups[o.devices[place].Group] = true
		}
	}
	for group := range groups {
		whole, all := true, true
		for place := range o.devices {
			if o.devices[place].Group != group {
				continue
			}
			whole = whole && o.free(place)
			all = all && set[place]
			if o.free(place) && !set[place] {
				left++
			}
		}
		if whole && !all {
			broken++
		}
	}
	inside, outside, numaLeft := 0, 0, 0
	for a := range o.devices {
		if o.free(a) && !set[a] && numa[o.devices[a].NUMANode] {
			numaLeft++
		}
		for b := range a {
			if o.links == nil {
				continue
			}
			if set[a] && set[b] {
				inside += o.links[a][b]
			}
			if o.free(a) && !set[a] && o.free(b) && !set[b] {
				outside += o.links[a][b]
			}
		}
	}
	return []int{avoided, len(groups) + lonely, broken, left, -inside, len(numa), -outside, numaLeft}
}
