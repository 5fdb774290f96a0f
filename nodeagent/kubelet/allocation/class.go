// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"cmp"
	"slices"
)

// class is a set of devices that differ only in their index.
type class struct {
	// members are indexes of devices, the lowest first.
	members []int
	state   state
	// numa is a mask with the bit of the NUMA node.
	numa uint64
	// inner is the number of links between any two members.
	inner int
	// block is the number of the block that the class belongs to; opens and
	// closes are true for the first and the last class of a block.
	block         int
	opens, closes bool
}

// block is an NVLink group, or a class of devices without a group.
type block struct {
	// single is true if each device is a group of its own.
	single bool
	// size counts all devices of the group, available or not; free those that
	// are free or required.
	size, free int
}

// whole reports whether all devices of the group are free.
func (b *block) whole() bool { return !b.single && b.free == b.size }

// classify groups the available devices into classes and these into blocks, in the order of
// their first members.
func classify(t *Topology, states []state) ([]class, []block) {
	// numbers are those of the classes, counted from 1, by twins and state.
	numbers := make([][required + 1]int, len(t.devices))
	var classes []class
	for place, state := range states {
		if state == unavailable {
			continue
		}
		number := &numbers[t.twins[place]][state]
		if *number == 0 {
			classes = append(classes, class{state: state, numa: 1 << t.numa[place]})
			*number = len(classes)
		}
		c := &classes[*number-1]
		c.members = append(c.members, place)
	}
	return classes, groupClasses(t, classes)
}

func groupClasses(t *Topology, classes []class) []block {
	var blocks []block
	ofGroup := map[int]int{}
	for number := range classes {
		c := &classes[number]
		group := t.devices[c.members[0]].Group
		known := false
		if c.block, known = ofGroup[group]; !known || group == Unknown {
			c.block = len(blocks)
			ofGroup[group] = c.block
			blocks = append(blocks, block{single: group == Unknown, size: t.groupSizes[group]})
		}
		if c.state != avoided {
			blocks[c.block].free += len(c.members)
		}
		if t.links != nil && len(c.members) > 1 {
			c.inner = t.links[c.members[0]][c.members[1]]
		}
	}
	slices.SortStableFunc(classes, func(a, b class) int { return cmp.Compare(a.block, b.block) })
	for number := range classes {
		classes[number].opens = number == 0 || classes[number-1].block != classes[number].block
		classes[number].closes = number == len(classes)-1 || classes[number+1].block != classes[number].block
	}
	return blocks
}

// crossLinks returns the number of links between a member of one class and a
// member of another one.
func crossLinks(t *Topology, classes []class) [][]int {
	cross := make([][]int, len(classes))
	for a := range classes {
		cross[a] = make([]int, len(classes))
		if t.links == nil {
			continue
		}
		for b := range classes {
			if a != b {
				cross[a][b] = t.links[classes[a].members[0]][classes[b].members[0]]
			}
		}
	}
	return cross
}
