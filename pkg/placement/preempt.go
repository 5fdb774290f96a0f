// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
)

// PreemptionRules say who may be made to leave for a gang.
type PreemptionRules struct {
	// Victim says what the priority of a running Pod is and whether it may be
	// preempted at all: that its priority is lower than the gang's, and that nothing
	// protects it. Without it nobody may.
	Victim func(pod *Pod) (priority int32, may bool)
	// Group is the gang of a Pod, whose members leave together: if one of them may
	// not, none may. Empty for a Pod that is alone; without it every Pod is.
	Group func(pod *Pod) string
	// Spare is how many members of a group may leave while the others stay: those
	// that run above its minimum. Any may, even if others of the group may not be
	// preempted. Without it none may.
	Spare func(group string) int
	// Budgets are the names of the disruption budgets that a Pod counts against.
	// Without it there are none.
	Budgets func(pod *Pod) []string
	// Allowed is how many disruptions each budget still allows; one that is not in
	// it allows none. Budgets are never exceeded.
	Allowed map[string]int
}

// Preemption is what lets a gang fit that otherwise does not.
type Preemption struct {
	// Victims are the names of the Pods that have to leave, sorted; none if the
	// gang fits as it is.
	Victims []string
	// Plan is where the gang goes then.
	Plan *Plan
}

// maxLevels is how many priorities are looked at above the lowest one that may
// suffice. Only budgets, spare members and gangs of several roles need more than
// one; after so many all priorities are allowed at once.
const maxLevels = 8

// Preempt finds running Pods whose leaving lets a gang fit, all of its members that
// must start, and changes nothing. found is false if it knows none.
//
// None of the victims can stay: with one Pod less, or one group less, the gang does
// not fit. Which they are follows kube-scheduler's preferences
// (pkg/scheduler/framework/preemption, pickOneNodeForPreemption): the priority of
// the highest victim is as low as possible; then the sum of the priorities, each
// counted from the lowest there can be, so that few Pods are better than many; and
// budgets are never violated.
//
// The lowest such priority is found by counting what would be free on each node,
// exactly for a gang of one role. Up to that priority the gang's members are given
// places one by one where room costs the least, of which the sets are enumerated
// node by node as in Consolidate; see clearing. Of several ways the best is taken,
// after all were put back that can stay (a deletion filter, Chinneck and Dravnieks
// 1991).
func (c *Cluster) Preempt(g *Gang, rules PreemptionRules) (result *Preemption, found bool, err error) {
	plan, fits, err := c.Plan(g)
	switch {
	case err != nil:
		return nil, false, err
	case fits:
		return &Preemption{Plan: plan}, true, nil
	case rules.Victim == nil:
		return nil, false, nil
	}
	defer c.except(g.Except)()
	p := &preemptor{cluster: c, gang: g, rules: &rules, start: c.root, demands: c.demands(g), nodes: map[*Domain][]*node{}}
	if g.Within != "" {
		p.start = c.domain(g.Within)
	}
	p.search()
	if p.best == nil {
		return nil, false, nil
	}
	return p.best.preemption(), true, nil
}

// preemptor looks for the victims of one gang.
type preemptor struct {
	cluster *Cluster
	gang    *Gang
	rules   *PreemptionRules
	start   *Domain
	demands []demand
	nodes   map[*Domain][]*node // see nodesOf
	best    *proposal
}

// search goes through the priorities that may suffice, the lowest first, until one
// does.
func (p *preemptor) search() {
	whole := p.pool(false)
	pools := []*pool{whole}
	if whole.spared {
		pools = append(pools, p.pool(true))
	}
	// Where every spare member counts by itself the most may leave.
	first, levels := p.levels(pools[len(pools)-1])
	for i, priority := range levels[first:] {
		if i == maxLevels {
			priority = levels[len(levels)-1]
		}
		for _, l := range pools {
			l.open(priority)
			p.explore(l)
		}
		for _, l := range pools {
			p.exploreAtOnce(l)
		}
		if p.best != nil || i == maxLevels {
			return
		}
	}
}

// levels returns the priorities of all that may leave, the lowest first, and from
// which one on there may be room. There is more room the more may leave, so that
// bisection finds it.
func (p *preemptor) levels(l *pool) (first int, levels []int32) {
	for i := range l.about {
		if l.about[i].allowed {
			levels = append(levels, l.about[i].priority)
		}
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	low, high := 0, len(levels)
	for low < high {
		middle := (low + high) / 2
		l.open(levels[middle])
		if p.mayFit(l) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, levels
}

// mayFit reports whether some scope has room for each role when all leave that may.
func (p *preemptor) mayFit(l *pool) bool {
	return slices.ContainsFunc(p.scopes(), func(scope *Domain) bool { return p.roomy(l, scope) })
}

// roomy reports whether a scope has room for each role when all leave that may.
func (p *preemptor) roomy(l *pool, scope *Domain) bool {
	for _, d := range p.demands {
		room := 0
		for _, n := range p.nodesOf(scope) {
			if room < d.count {
				room += l.capacity(n, d.request)
			}
		}
		if room < d.count {
			return false
		}
	}
	return true
}

// scopes are the domains in each of which a place for the gang is looked for: if
// it prefers one domain of its level, those, and all together.
func (p *preemptor) scopes() (scopes []*Domain) {
	if p.gang.Level > p.start.Level {
		p.start.visit(p.gang.Level, func(d *Domain) { scopes = append(scopes, d) })
		if p.gang.Required {
			return scopes
		}
	}
	return append(scopes, p.start)
}

// nodesOf returns the nodes of a scope in the order of their names, without those
// that are out.
func (p *preemptor) nodesOf(scope *Domain) []*node {
	nodes, known := p.nodes[scope]
	if !known {
		for _, members := range scope.classes {
			nodes = append(nodes, members.nodes...)
		}
		slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.Name, b.Name) })
		p.nodes[scope] = nodes
	}
	return nodes
}

// has reports whether a node is in a domain, and not out for now.
func (d *Domain) has(n *node) bool {
	return !n.out && n.domain.above(d.Level) == d
}

// explore looks for victims among those who may leave now.
func (p *preemptor) explore(l *pool) {
	scopes := slices.DeleteFunc(p.scopes(), func(scope *Domain) bool { return !p.roomy(l, scope) })
	for _, price := range []pricing{exactly, shared, thrifty} {
		if (price == shared && (!l.spread || p.members() == 1)) || (price == thrifty && (p.best != nil || len(l.limits) == 0)) {
			continue
		}
		l.price(price)
		menus := map[*Request]map[*node][]eviction{}
		for _, scope := range scopes {
			p.clear(l, scope, menus)
		}
	}
}

// exploreAtOnce lets all leave that may, and puts back whom it can. It is for what
// may not be found member by member: gangs of several roles, and scarce limits.
func (p *preemptor) exploreAtOnce(l *pool) {
	if p.best != nil || (len(p.demands) == 1 && len(l.limits) == 0) {
		return
	}
	for _, scope := range p.scopes() {
		if p.roomy(l, scope) {
			p.propose(l, l.affordable(scope), true)
		}
	}
}

// clear looks for victims in a scope, with the roles in one order after the other.
func (p *preemptor) clear(l *pool, scope *Domain, menus map[*Request]map[*node][]eviction) {
	for _, order := range orders(p.demands, scope) {
		w := &clearing{preemptor: p, pool: l, scope: scope, menus: menus, left: slices.Clone(l.limits), stamps: map[*node]int{}}
		if w.run(order) && p.propose(l, w.chosen, false) {
			return
		}
	}
}

// members is how many must start.
func (p *preemptor) members() int {
	sum := 0
	for _, d := range p.demands {
		sum += d.count
	}
	return sum
}
