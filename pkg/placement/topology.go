// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"strings"
)

// place places all members within a domain according to the gang's topology, or none.
func (p *planner) place(start *Domain, demands []demand) bool {
	switch {
	case p.gang.Level <= start.Level:
		return p.fillAll(start, demands)
	case p.gang.Required:
		return p.placeInOne(start, p.gang.Level, demands)
	}
	for level := p.gang.Level; level > start.Level; level-- {
		if p.placeInOne(start, level, demands) {
			return true
		}
	}
	before := len(p.taken)
	if roomForEach(start, demands) && len(p.spread(start, demands)) == 0 {
		return true
	}
	p.giveBack(before)
	return p.fillAll(start, demands)
}

// placeInOne places all members in one domain of a level, the tightest that
// suffices.
func (p *planner) placeInOne(start *Domain, level int, demands []demand) bool {
	for _, d := range p.sufficient(start, level, demands) {
		before := len(p.taken)
		if d.Level >= p.gang.Level && p.fillAll(d, demands) {
			return true
		}
		if d.Level < p.gang.Level && len(p.spread(d, demands)) == 0 {
			return true
		}
		p.giveBack(before)
	}
	return false
}

// sufficient returns the domains of a level that have room for each role, the tightest
// first; if the gang must stay in one, those with more room for its extras come before.
func (p *planner) sufficient(start *Domain, level int, demands []demand) []*Domain {
	list := slices.DeleteFunc(start.at(level), func(d *Domain) bool { return !roomForEach(d, demands) })
	slices.SortFunc(list, func(a, b *Domain) int {
		return cmp.Or(-cmp.Compare(p.extras(a), p.extras(b)), cmp.Compare(roomForAll(a, demands), roomForAll(b, demands)), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// extras returns how many members a domain has room for, up to the maximum, if members
// above the minimum can go nowhere else.
func (p *planner) extras(d *Domain) int {
	sum := 0
	if !p.gang.Required {
		return sum
	}
	for i := range p.gang.Roles {
		role := &p.gang.Roles[i]
		if role.Max > role.Min {
			sum += min(role.Max, d.Room(p.cluster.Request(role.Shape)))
		}
	}
	return sum
}

// spread places members in as few domains of the gang's level as it can, and returns the
// remaining demands. Among the domains of the next level it fills the roomiest first, so
// that few are needed, and puts the rest into the tightest that suffices (as Kueue's
// topology-aware scheduling does).
func (p *planner) spread(d *Domain, demands []demand) []demand {
	if d.Level >= p.gang.Level {
		return p.fill(d, demands)
	}
	left := slices.Clone(demands)
	used := map[*Domain]bool{}
	for len(left) > 0 {
		next := p.nextChild(d, left, used)
		if next == nil {
			return p.fill(d, left) // nodes that are in no domain of the next level
		}
		used[next] = true
		left = p.spread(next, left)
	}
	return left
}

// nextChild returns the tightest child that has room for all, or else the
// roomiest.
func (p *planner) nextChild(d *Domain, demands []demand, used map[*Domain]bool) *Domain {
	var best *Domain
	bestRoom, bestSuffices := 0, false
	for _, child := range d.Children {
		if used[child] || child.unnamed && child.Level == p.gang.Level {
			continue
		}
		room, suffices := roomForAll(child, demands), roomForEach(child, demands)
		if room == 0 {
			continue
		}
		better := best == nil || (suffices && !bestSuffices) ||
			(suffices == bestSuffices && ((suffices && room < bestRoom) || (!suffices && room > bestRoom)))
		if better {
			best, bestRoom, bestSuffices = child, room, suffices
		}
	}
	return best
}

// roomForAll measures the room of a domain for a gang: the sum over the roles of
// how many members there is room for, each weighed by its GPUs.
func roomForAll(d *Domain, demands []demand) int {
	sum := 0
	for _, wanted := range demands {
		sum += d.Room(wanted.request) * max(1, wanted.request.Percent())
	}
	return sum
}

// at returns the domains of a level within d, in the order of their names: only d if it is not above that level.
func (d *Domain) at(level int) (list []*Domain) {
	if d.Level >= level {
		return []*Domain{d}
	}
	for _, child := range d.Children {
		if child.Level < level || !child.unnamed {
			list = append(list, child.at(level)...)
		}
	}
	return list
}

// above returns the domain of a level that d is or is in; nil if there is none.
func (d *Domain) above(level int) *Domain {
	for d != nil && d.Level > level {
		d = d.parent
	}
	if d == nil || d.Level < level {
		return nil
	}
	return d
}

// domainAt returns the domain of a level that a node is in; nil if there is none.
func (n *node) domainAt(level int) *Domain {
	if d := n.domain.above(level); d != nil && !d.unnamed {
		return d
	}
	return nil
}

// descend returns the child that is, or contains, the domain with a name.
func (d *Domain) descend(name string) *Domain {
	for _, child := range d.Children {
		if child.Name == name || strings.HasPrefix(name, child.Name+"/") {
			return child
		}
	}
	return nil
}
