// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxWork bounds a search, to some milliseconds. It is counted in links between classes: a
// complete choice takes a look at all of them.
const maxWork = 1 << 22

// search looks for the best number of devices from each class.
type search struct {
	classes []class
	blocks  []block
	// cross is the number of links between a member of one class and one of another.
	cross [][]int
	// capacity counts the devices of the classes from each one on.
	capacity []int
	size     int
	work     int

	counts []int // the current choice
	rest   []int // how many free devices it leaves of each class
	best   []int // the devices of the best choice so far
	cost   cost  // its cost
	spare  []int // memory for the devices of another one
}

// class is a set of devices that differ only in their index.
type class struct {
	// members are indexes of devices, the lowest first.
	members []int
	state   state
	// numa is a mask with the bit of the NUMA node.
	numa uint64
	// inner is the number of links between any two members.
	inner int
	// block is the number of the block that the class belongs to.
	block int
}

// block is an NVLink group, or all devices without a group.
type block struct {
	// single is true if each device is a group of its own.
	single bool
	// size counts all devices of the group, available or not; free those that are free or
	// required, and taken those of the current choice.
	size, free, taken int
}

// cost is the cost of a choice by each criterion but the first, which the states of the devices
// fulfil; costs are compared lexicographically.
type cost [7]int

func newSearch(t *Topology, states []state, size int) *search {
	s := &search{size: size}
	s.classify(t, states)
	count := len(s.classes)
	s.counts, s.rest = make([]int, count), make([]int, count)
	s.cross, s.capacity = make([][]int, count), make([]int, count+1)
	for number := count - 1; number >= 0; number-- {
		first := s.classes[number].members[0]
		s.capacity[number] = s.capacity[number+1] + len(s.classes[number].members)
		s.cross[number] = make([]int, number)
		for other := range number {
			if t.links != nil {
				s.cross[number][other] = t.links[first][s.classes[other].members[0]]
			}
		}
	}
	return s
}

// classify groups the available devices into classes and these into blocks. The classes are in
// the order of the blocks, those that must be chosen first.
func (s *search) classify(t *Topology, states []state) {
	// numbers are those of the classes, counted from 1, by twins and state.
	numbers := make([][required + 1]int, len(t.devices))
	ofGroup := map[int]int{}
	for place, state := range states {
		if state == unavailable {
			continue
		}
		number := &numbers[t.twins[place]][state]
		group := t.devices[place].Group
		at, known := ofGroup[group]
		if !known {
			at = len(s.blocks)
			ofGroup[group] = at
			s.blocks = append(s.blocks, block{single: group == Unknown, size: t.groupSizes[group]})
		}
		if *number == 0 {
			s.classes = append(s.classes, class{state: state, numa: 1 << t.numa[place], block: at})
			*number = len(s.classes)
		}
		if state != avoided {
			s.blocks[at].free++
		}
		c := &s.classes[*number-1]
		if c.members = append(c.members, place); len(c.members) == 2 && t.links != nil {
			c.inner = t.links[c.members[0]][place]
		}
	}
	slices.SortStableFunc(s.classes, func(a, b class) int {
		return cmp.Or(cmp.Compare(b.must(), a.must()), cmp.Compare(a.block, b.block))
	})
}

// must returns how many devices of the class must be chosen.
func (c *class) must() int {
	if c.state == required {
		return len(c.members)
	}
	return 0
}

func (s *search) run() []int {
	s.descend(0, s.size)
	return s.best
}

// descend tries all counts for a class and those after it, of which need devices are still
// to be chosen.
func (s *search) descend(number, need int) {
	s.work += len(s.classes)
	if number == len(s.classes) {
		s.consider()
		return
	}
	c := &s.classes[number]
	least := max(c.must(), need-s.capacity[number+1])
	for count := min(len(c.members), need); count >= least && (s.best == nil || s.work < maxWork); count-- {
		s.counts[number] = count
		s.descend(number+1, need-count)
	}
	s.counts[number] = 0
}

// consider keeps the current choice if it is the best so far.
func (s *search) consider() {
	s.work += len(s.classes) * len(s.classes)
	current := s.costOfCounts()
	order := slices.Compare(current[:], s.cost[:])
	if s.best != nil && order > 0 {
		return
	}
	s.spare = s.spare[:0]
	for number := range s.classes {
		s.spare = append(s.spare, s.classes[number].members[:s.counts[number]]...)
	}
	slices.Sort(s.spare)
	if s.best == nil || order < 0 || slices.Compare(s.spare, s.best) < 0 {
		s.cost, s.best, s.spare = current, s.spare, s.best
	}
}

// costOfCounts returns the cost of the current choice.
func (s *search) costOfCounts() cost {
	for i := range s.blocks {
		s.blocks[i].taken = 0
	}
	numa, links, restLinks, numaLeft := uint64(0), 0, 0, 0
	for number, count := range s.counts {
		c := &s.classes[number]
		s.blocks[c.block].taken += count
		if count > 0 {
			numa |= c.numa
		}
		if c.state != avoided {
			s.rest[number] = len(c.members) - count
		}
		rest := s.rest[number]
		links += c.inner * count * (count - 1) / 2
		restLinks += c.inner * rest * (rest - 1) / 2
		for other, each := range s.cross[number] {
			links += each * count * s.counts[other]
			restLinks += each * rest * s.rest[other]
		}
	}
	for number := range s.classes {
		if s.classes[number].numa&numa != 0 {
			numaLeft += s.rest[number]
		}
	}
	groups, broken, left := s.groups()
	return cost{groups, broken, left, -links, bits.OnesCount64(numa), -restLinks, numaLeft}
}

// groups counts the groups that the current choice uses, those that it breaks, and how many free
// devices it leaves of them.
func (s *search) groups() (used, broken, left int) {
	for i := range s.blocks {
		switch b := &s.blocks[i]; {
		case b.taken == 0:
		case b.single:
			used += b.taken
		default:
			used++
			left += max(0, b.free-b.taken)
			if b.free == b.size && b.taken < b.size {
				broken++
			}
		}
	}
	return used, broken, left
}
