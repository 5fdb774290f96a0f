// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"math"
	"math/bits"
	"slices"
)

// bounds are upper bounds on what the remaining classes can contribute. Index i stands for
// the classes from i on.
type bounds struct {
	// capacity counts all devices, unavoided those that are not to be avoided,
	// required those that must be chosen.
	capacity, unavoided, required []int
	// groups[i][n] is how many devices the n+1 largest groups have, counted at
	// the beginning of a block.
	groups [][]int
	// first is the lowest index of a device.
	first []int
	// numa is the smallest number of NUMA nodes that together have enough devices.
	numa int
	// maxLink is the highest number of links between two devices, maxDegree the highest
	// number of links of one device to all others.
	maxLink, maxDegree int
}

func newBounds(s *search) bounds {
	count := len(s.classes)
	b := bounds{
		capacity:  make([]int, count+1),
		unavoided: make([]int, count+1),
		required:  make([]int, count+1),
		groups:    make([][]int, count),
		first:     make([]int, count+1),
	}
	b.first[count] = math.MaxInt
	onNUMA := make([]int, 64)
	var sizes []int // of the groups from here on
	inBlock := 0
	for number := count - 1; number >= 0; number-- {
		c := &s.classes[number]
		members := len(c.members)
		onNUMA[bits.TrailingZeros64(c.numa)] += members
		b.first[number] = min(b.first[number+1], c.members[0])
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
			b.groups[number] = largest(sizes)
			inBlock = 0
		}
		b.maxLink = max(b.maxLink, c.inner, slices.Max(s.cross[number]))
		b.maxDegree = max(b.maxDegree, s.degree(number, func(*class) bool { return true }))
	}
	b.numa = fewest(largest(onNUMA), s.size)
	return b
}

func blockSizes(group *block, available int) []int {
	if group.single {
		return slices.Repeat([]int{1}, available)
	}
	return []int{available}
}

// largest sorts sizes and returns their cumulative sums, beginning with the largest.
func largest(sizes []int) []int {
	slices.Sort(sizes)
	devices := make([]int, 0, len(sizes))
	sum := 0
	for _, size := range slices.Backward(sizes) {
		sum += size
		devices = append(devices, sum)
	}
	return devices
}

// fewest returns how many of the largest groups are needed for a number of devices.
func fewest(largest []int, need int) int {
	if need == 0 {
		return 0
	}
	place, _ := slices.BinarySearch(largest, need)
	return place + 1
}

// mustAvoided returns the smallest number of devices to be avoided among need devices from
// the class of this number on.
func (b *bounds) mustAvoided(number, need int) int {
	return max(0, need-b.unavoided[number])
}

// prunes reports whether no choice on the branch can be better than the best so far. need
// devices are still to be chosen, from the class of this number on.
func (b *bounds) prunes(s *search, number, need int, at branch) bool {
	at.avoided += b.mustAvoided(number, need)
	c := &s.classes[number]
	if c.opens {
		at.groups += fewest(b.groups[number], need)
	} else if group := &s.blocks[c.block]; !group.single && at.taken > 0 {
		at.left += max(0, group.free-at.takenFree-need)
		if group.whole() && at.taken+need < group.size {
			at.broken++
		}
	}
	taken := s.size - need
	more := min(b.maxLink*(need*taken+need*(need-1)/2), need*b.maxDegree)
	least := cost{
		at.avoided, at.groups, at.broken, at.left, -(at.links + more), max(bits.OnesCount64(at.numa), b.numa),
		-at.restLinks, max(0, s.rest.onNodes(at.numa)-(s.size-at.avoided)),
	}
	order := slices.Compare(least[:], s.cost[:])
	return order > 0 || order == 0 && !s.mayBeLower(number)
}
