// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import "slices"

// bounds says what the classes from a certain one on can contribute at most.
// Index i stands for the classes from i on.
type bounds struct {
	// capacity counts all devices, unavoided those that are not to be avoided,
	// required those that must be taken.
	capacity, unavoided, required []int
	// groups[i][n] is the smallest number of groups that have n+1 devices,
	// counted at the beginning of a block.
	groups [][]int
	// maxLink is the highest number of links between two devices.
	maxLink int
}

func newBounds(s *search) bounds {
	count := len(s.classes)
	b := bounds{
		capacity:  make([]int, count+1),
		unavoided: make([]int, count+1),
		required:  make([]int, count+1),
		groups:    make([][]int, count),
	}
	var sizes []int // of the groups from here on
	inBlock := 0
	for number := count - 1; number >= 0; number-- {
		c := &s.classes[number]
		members := len(c.members)
		b.capacity[number] = b.capacity[number+1] + members
		b.unavoided[number] = b.unavoided[number+1]
		b.required[number] = b.required[number+1]
		if c.state != avoided {
			b.unavoided[number] += members
		}
		if c.state == required {
			b.required[number] += members
		}
		inBlock += members
		if c.opens {
			sizes = append(sizes, blockSizes(&s.blocks[c.block], inBlock)...)
			b.groups[number] = fewestGroups(sizes)
			inBlock = 0
		}
		b.maxLink = max(b.maxLink, c.inner, slices.Max(s.cross[number]))
	}
	return b
}

func blockSizes(group *block, available int) []int {
	if group.single {
		return slices.Repeat([]int{1}, available)
	}
	return []int{available}
}

// fewestGroups returns the smallest number of groups of these sizes that have
// 1, 2, … devices.
func fewestGroups(sizes []int) []int {
	slices.Sort(sizes)
	var fewest []int
	for i, size := range slices.Backward(sizes) {
		fewest = append(fewest, slices.Repeat([]int{len(sizes) - i}, size)...)
	}
	return fewest
}

// mustAvoided is the smallest number of devices to be avoided among need devices
// from the class of this number on.
func (b *bounds) mustAvoided(number, need int) int {
	return max(0, need-b.unavoided[number])
}

// hopeless is true if no choice on the branch can be better than the best so
// far. need devices are to be taken from the class of this number on.
func (b *bounds) hopeless(s *search, number, need int, at branch) bool {
	at.avoided += b.mustAvoided(number, need)
	c := &s.classes[number]
	if c.opens {
		if need > 0 {
			at.groups += b.groups[number][need-1]
		}
	} else if group := &s.blocks[c.block]; !group.single && at.taken > 0 {
		at.left += max(0, group.free-at.takenFree-need)
		if group.whole() && at.taken+need < group.size {
			at.broken++
		}
	}
	taken := s.size - need
	most := at.links + b.maxLink*(need*taken+need*(need-1)/2)
	least := cost{at.avoided, at.groups, at.broken, at.left, -most}
	const compared = 5
	return slices.Compare(least[:compared], s.cost[:compared]) > 0
}
