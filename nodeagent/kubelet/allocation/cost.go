// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import "math/bits"

// cost is the cost of a choice by each criterion, the most important first; costs are
// compared lexicographically.
type cost [8]int

// costOf returns the cost of a complete choice.
func (s *search) costOf(b branch) cost {
	return cost{
		b.avoided, b.groups, b.broken, b.left, -b.links, bits.OnesCount64(b.numa),
		-b.restLinks, s.rest.onNodes(b.numa) - (s.size - b.avoided),
	}
}

// rest is precomputed from the free devices, to count what is left of them without
// iterating over each.
type rest struct {
	// links counts the links among all free devices.
	links int
	// degrees count the links of a member of each class to all free devices.
	degrees []int
	// numa counts the free devices of each NUMA node.
	numa [64]int
}

func newRest(s *search) rest {
	r := rest{degrees: make([]int, len(s.classes))}
	for number := range s.classes {
		c := &s.classes[number]
		if c.state == avoided {
			continue
		}
		r.degrees[number] = s.degree(number, func(other *class) bool { return other.state != avoided })
		r.links += r.degrees[number] * len(c.members)
		r.numa[bits.TrailingZeros64(c.numa)] += len(c.members)
	}
	r.links /= 2 // each has two ends
	return r
}

// degree counts the links of a member of a class to the members of some classes.
func (s *search) degree(number int, counts func(*class) bool) int {
	degree := 0
	for other := range s.classes {
		c := &s.classes[other]
		switch {
		case !counts(c):
		case other == number:
			degree += c.inner * (len(c.members) - 1)
		default:
			degree += s.cross[number][other] * len(c.members)
		}
	}
	return degree
}

// onNodes counts the free devices of some NUMA nodes.
func (r *rest) onNodes(mask uint64) int {
	devices := 0
	for ; mask != 0; mask &= mask - 1 {
		devices += r.numa[bits.TrailingZeros64(mask)]
	}
	return devices
}
