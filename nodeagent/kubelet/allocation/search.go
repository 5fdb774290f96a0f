// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import "slices"

// maxWork bounds a search, to about a millisecond. It is counted in classes: each node of
// the search tree costs at most one visit of every class.
const maxWork = 1 << 20

// search looks for the best number of devices from each class.
type search struct {
	classes []class
	blocks  []block
	cross   [][]int
	bounds  bounds
	rest    rest
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
	s.rest = newRest(s)
	return s
}

func (s *search) run() []int {
	s.descend(0, s.size, branch{restLinks: s.rest.links})
	return indexes(s.classes, s.best)
}

// descend tries all counts for a class and those after it, of which need devices are still
// to be chosen.
func (s *search) descend(number, need int, b branch) {
	s.work += len(s.classes)
	if number == len(s.classes) {
		s.consider(b)
		return
	}
	if b.avoided+s.bounds.mustAvoided(number, need) > s.bounds.mustAvoided(0, s.size) {
		return
	}
	if s.found && (s.work >= maxWork || s.bounds.prunes(s, number, need, b)) {
		return
	}
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

// branch is the state of a partial choice, for the first classes.
type branch struct {
	avoided, groups, broken, left, links int
	// restLinks counts the links among the free devices that are left.
	restLinks int
	numa      uint64
	// taken and takenFree count the devices chosen from the current block, all and the
	// free or required ones.
	taken, takenFree int
}

// take returns the branch after choosing a number of devices of the next class.
func (s *search) take(b branch, number, count int) branch {
	c := &s.classes[number]
	group := &s.blocks[c.block]
	if c.opens {
		b.taken, b.takenFree = 0, 0
	}
	if count > 0 {
		b.numa |= c.numa
		links, freeLinks := s.newLinks(number, count)
		b.links += links
		if c.state != avoided {
			// Links among the chosen devices are counted twice in their degrees.
			b.restLinks -= count*s.rest.degrees[number] - freeLinks
		}
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

// newLinks counts the links of devices of a class among each other and to those chosen
// before; the second number excludes links to devices that are to be avoided.
func (s *search) newLinks(number, count int) (links, free int) {
	links = s.classes[number].inner * count * (count - 1) / 2
	free = links
	for before, per := range s.cross[number][:number] {
		more := per * count * s.counts[before]
		links += more
		if s.classes[before].state != avoided {
			free += more
		}
	}
	return links, free
}

// consider keeps the current choice if it is the best so far.
func (s *search) consider(b branch) {
	current := s.costOf(b)
	if s.found {
		order := slices.Compare(current[:], s.cost[:])
		if order > 0 || order == 0 && !s.mayBeLower(len(s.classes)) {
			return
		}
	}
	s.found = true
	s.cost = current
	copy(s.best, s.counts)
}

// mayBeLower reports whether the current choice, made for the classes before this number and
// as good as the best one, can have lower indexes: the lowest index that only one of the
// two has must be its own.
func (s *search) mayBeLower(number int) bool {
	lowest, lower := s.bounds.first[number], true
	for before := range number {
		current, best := s.counts[before], s.best[before]
		if current == best {
			continue
		}
		if index := s.classes[before].members[min(current, best)]; index < lowest {
			lowest, lower = index, current > best
		}
	}
	return lower
}
