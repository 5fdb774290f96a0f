// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"math/bits"
	"slices"
)

// maxWork bounds a search, to about a millisecond. It is counted in classes: a
// step, which is a choice for some of the first classes, looks at each of them
// at most once. With 16 devices there are fewer than 50,000 steps.
const maxWork = 1 << 20

// search looks for the best number of devices from each class.
type search struct {
	classes []class
	blocks  []block
	cross   [][]int
	bounds  bounds
	size    int
	work    int

	counts []int // the current choice
	best   []int // the best choice so far
	cost   cost  // its cost
	found  bool
}

func newSearch(t *Topology, states []state, size int) *search {
	classes, blocks := classify(t, states)
	s := &search{
		classes: classes,
		blocks:  blocks,
		cross:   crossLinks(t, classes),
		size:    size,
		counts:  make([]int, len(classes)),
		best:    make([]int, len(classes)),
	}
	s.bounds = newBounds(s)
	return s
}

func (s *search) run() []int {
	s.descend(0, s.size, branch{})
	return places(s.classes, s.best)
}

// descend tries all numbers for a class and those after it, of which need
// devices are still to be taken.
func (s *search) descend(number, need int, b branch) {
	if number == len(s.classes) {
		s.consider(b)
		return
	}
	if b.avoided+s.bounds.mustAvoided(number, need) > s.bounds.mustAvoided(0, s.size) {
		return
	}
	if s.found && (s.work >= maxWork || s.bounds.hopeless(s, number, need, b)) {
		return
	}
	s.work += len(s.classes)
	c := &s.classes[number]
	most := min(len(c.members), need-s.bounds.required[number+1])
	least := max(0, need-s.bounds.capacity[number+1])
	if c.state == required {
		least = len(c.members)
	}
	for count := most; count >= least; count-- {
		s.counts[number] = count
		s.descend(number+1, need-count, s.take(b, number, count))
	}
	s.counts[number] = 0
}

// branch is what is known of a choice for some of the first classes.
type branch struct {
	avoided, groups, broken, left, links int
	numa                                 uint64
	// taken and takenFree count what is chosen from the current block, of it
	// free or required.
	taken, takenFree int
}

// take returns the branch with a number of devices of the next class.
func (s *search) take(b branch, number, count int) branch {
	c := &s.classes[number]
	group := &s.blocks[c.block]
	if c.opens {
		b.taken, b.takenFree = 0, 0
	}
	if count > 0 {
		b.numa |= c.numa
		b.links += s.newLinks(number, count)
		if group.single {
			b.groups += count
		} else if b.taken == 0 {
			b.groups++
		}
		b.taken += count
		if c.state == avoided {
			b.avoided += count
		} else {
			b.takenFree += count
		}
	}
	if c.closes && !group.single && b.taken > 0 {
		b.left += group.free - b.takenFree
		if group.whole() && b.taken < group.size {
			b.broken++
		}
	}
	return b
}

// newLinks counts the links of devices of a class among each other and to those
// that are chosen before them.
func (s *search) newLinks(number, count int) int {
	links := s.classes[number].inner * count * (count - 1) / 2
	for before, per := range s.cross[number][:number] {
		links += per * count * s.counts[before]
	}
	return links
}

// consider keeps the current choice if it is the best so far.
func (s *search) consider(b branch) {
	current := cost{b.avoided, b.groups, b.broken, b.left, -b.links, bits.OnesCount64(b.numa)}
	if s.found {
		switch slices.Compare(current[:costsOfTheChoice], s.cost[:costsOfTheChoice]) {
		case 1:
			return
		case -1:
		default:
			// What is left is looked at only if it matters: it costs most.
			s.addCostsOfTheRest(&current, b.numa)
			if order := slices.Compare(current[:], s.cost[:]); order > 0 || order == 0 && !s.lowerIndexes() {
				return
			}
			s.keep(current)
			return
		}
	}
	s.addCostsOfTheRest(&current, b.numa)
	s.keep(current)
}

func (s *search) keep(current cost) {
	s.found = true
	s.cost = current
	copy(s.best, s.counts)
}

// lowerIndexes is true if the current choice has lower indexes than the best
// one.
func (s *search) lowerIndexes() bool {
	return slices.Compare(places(s.classes, s.counts), places(s.classes, s.best)) < 0
}
