// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

// cost is what a choice costs, the most important first; it is compared from the
// left. The first costsOfTheChoice are those of the chosen devices, the others
// those of the devices that are left.
type cost [8]int

const (
	costsOfTheChoice = 6
	restLinks        = 6
	numaLeft         = 7
)

// addCostsOfTheRest counts the links among the free devices that are left, and
// those devices that are left on the chosen NUMA nodes.
func (s *search) addCostsOfTheRest(c *cost, numa uint64) {
	for a := range s.classes {
		rest := s.rest(a)
		if rest == 0 {
			continue
		}
		if s.classes[a].numa&numa != 0 {
			c[numaLeft] += rest
		}
		c[restLinks] -= s.classes[a].inner * rest * (rest - 1) / 2
		for b, per := range s.cross[a][:a] {
			if per > 0 {
				c[restLinks] -= per * rest * s.rest(b)
			}
		}
	}
}

// rest is the number of free devices of a class that are left.
func (s *search) rest(number int) int {
	if s.classes[number].state == avoided {
		return 0
	}
	return len(s.classes[number].members) - s.counts[number]
}
