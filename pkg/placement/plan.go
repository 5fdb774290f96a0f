// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
)

// Plan finds places for a gang, all or nothing, without changing the cluster. fits is
// false if it finds none.
func (c *Cluster) Plan(g *Gang) (plan *Plan, fits bool, err error) {
	if err := g.Validate(); err != nil {
		return nil, false, err
	}
	start := c.domain(g.Within)
	if start == nil {
		return nil, false, fmt.Errorf("within: there is no domain %q", g.Within)
	}
	c.search, c.searched = Search{}, false
	defer c.except(g.Except)()
	p := newPlanner(c, g)
	defer p.showAll()
	defer p.giveBack(0)
	if demands := c.demands(g); len(demands) > 0 && !p.place(start, demands) && !p.placeOtherwise(start, demands) {
		return nil, false, nil
	}
	p.extend(start)
	return p.plan(), true, nil
}

// domain returns a domain by its name: the whole cluster for none, and nil for an unknown one.
func (c *Cluster) domain(name string) *Domain {
	d := c.root
	for d.Name != name {
		next := d.descend(name)
		if next == nil {
			return nil
		}
		d = next
	}
	return d
}

// planner places the members of one gang. Their resources stay allocated until they are
// given back.
type planner struct {
	cluster *Cluster
	gang    *Gang
	taken   []taken
	checks  *checks // nil without a Checker
}

func newPlanner(c *Cluster, g *Gang) *planner {
	p := &planner{cluster: c, gang: g}
	if g.Checker != nil {
		p.checks = &checks{Checker: g.Checker, role: noRole, never: map[int][]*node{}}
	}
	return p
}

type taken struct {
	member Member
	node   *node
}

// take places one member within a domain, where it fits best.
func (p *planner) take(role int, r *Request, within *Domain) bool {
	p.turnTo(role)
	for !p.exhausted() {
		n, cost := p.cluster.best(r, within)
		if n == nil {
			return false
		}
		if p.accepts(role, n) {
			p.put(role, r, n, cost)
			return true
		}
	}
	return false
}

// put places one member on a node.
func (p *planner) put(role int, r *Request, n *node, cost float64) {
	t := taken{member: Member{Role: role, Place: p.cluster.placeOn(n, r, cost)}, node: n}
	p.cluster.take(n, &t.member.Use)
	p.taken = append(p.taken, t)
}

// placeOtherwise searches further where a Checker's refusals, or the order of the roles, may
// have misled the search. Without a Checker it does not: the search is bounded by the
// Checker's patience.
func (p *planner) placeOtherwise(start *Domain, demands []demand) bool {
	if p.checks == nil || p.exhausted() || !p.checks.conditional && len(demands) == 1 {
		return false
	}
	p.showAll()
	return roomForEach(start, demands) && p.backtrack(start, demands)
}

// giveBack undoes all placements but the first keep ones.
func (p *planner) giveBack(keep int) {
	for _, t := range slices.Backward(p.taken[keep:]) {
		p.cluster.give(t.node, &t.member.Use)
	}
	p.undone(len(p.taken) - keep)
	p.taken = p.taken[:keep]
}

// giveAll releases the places of all members temporarily, and takeAll allocates them again.
func (p *planner) giveAll() {
	for i := range p.taken {
		p.cluster.give(p.taken[i].node, &p.taken[i].member.Use)
	}
}

func (p *planner) takeAll() {
	for i := range p.taken {
		p.cluster.take(p.taken[i].node, &p.taken[i].member.Use)
	}
}

// fill places as many members as it can within a domain and returns the remaining
// demands.
func (p *planner) fill(within *Domain, demands []demand) []demand {
	var left []demand
	for _, d := range demands {
		for d.count > 0 && p.take(d.role, d.request, within) {
			d.count--
		}
		if d.count > 0 {
			left = append(left, d)
		}
	}
	return left
}

// fillAll places all members within a domain or none.
func (p *planner) fillAll(within *Domain, demands []demand) bool {
	if !roomForEach(within, demands) {
		return false
	}
	before := len(p.taken)
	for _, order := range orders(demands, within) {
		if len(p.fill(within, order)) == 0 {
			return true
		}
		p.giveBack(before)
	}
	return false
}

// roomForEach reports whether a domain has room for each role by itself.
func roomForEach(within *Domain, demands []demand) bool {
	for _, d := range demands {
		if within.Room(d.request) < d.count {
			return false
		}
	}
	return true
}

// orders returns the orders in which roles are tried. With one role any order finds a
// place if there is one: a member takes the room of one member. With several, an earlier
// role may take what only a later one could use.
func orders(demands []demand, within *Domain) [][]demand {
	list := [][]demand{demands}
	if len(demands) < 2 {
		return list
	}
	for _, compare := range []func(a, b demand) int{
		func(a, b demand) int { return int(b.request.CPU - a.request.CPU) },
		func(a, b demand) int { return int(b.request.Memory - a.request.Memory) },
		func(a, b demand) int { return accepted(&a.request.Shape) - accepted(&b.request.Shape) },
	} {
		order := slices.Clone(demands)
		slices.SortStableFunc(order, compare)
		list = append(list, order)
	}
	reversed := slices.Clone(demands)
	slices.Reverse(reversed)
	list = append(list, reversed)
	if slices.ContainsFunc(demands, func(d demand) bool { return d.request.picky() }) {
		// How restrictive a selector is, and how scarce a resource, only shows in the room
		// that the nodes have.
		order := slices.Clone(demands)
		slices.SortStableFunc(order, func(a, b demand) int { return within.Room(a.request) - within.Room(b.request) })
		list = append(list, order)
	}
	return list
}

// picky reports whether a request can use only some nodes for reasons that do not show in
// its size.
func (r *Request) picky() bool {
	return r.selector != nil || len(r.Nodes) > 0 || len(r.Others) > 0
}

// extend places members above the minimum where there is room.
func (p *planner) extend(start *Domain) {
	for i := range p.gang.Roles {
		role := &p.gang.Roles[i]
		more := demand{role: i, request: p.cluster.Request(role.Shape), count: 1}
		for range role.Max - role.Min {
			if !p.join(more, start) {
				break
			}
		}
	}
}

// join places one more member, if possible in a domain that the gang already uses.
func (p *planner) join(more demand, start *Domain) bool {
	if p.gang.Level <= start.Level {
		return p.take(more.role, more.request, start)
	}
	for _, near := range p.domains() {
		if near.Room(more.request) > 0 && p.take(more.role, more.request, near) {
			return true
		}
	}
	if p.gang.Required && len(p.taken) > 0 {
		return false
	}
	return p.place(start, []demand{more})
}

// domains returns the domains of the gang's level that have members, in the order in
// which they were first used.
func (p *planner) domains() []*Domain {
	var list []*Domain
	for i := range p.taken {
		if d := p.taken[i].node.domainAt(p.gang.Level); d != nil && !slices.Contains(list, d) {
			list = append(list, d)
		}
	}
	return list
}

func (p *planner) plan() *Plan {
	plan := &Plan{Members: make([]Member, len(p.taken))}
	for i := range p.taken {
		plan.Members[i] = p.taken[i].member
	}
	if p.gang.Level > 0 {
		for _, d := range p.domains() {
			plan.Domains = append(plan.Domains, d.Name)
		}
	}
	return plan
}
