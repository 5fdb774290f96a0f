// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"slices"
	"sort"
)

// PreemptionRules determine which Pods may be preempted for a gang.
type PreemptionRules struct {
	// Victim returns the priority of a running Pod, and whether it may be preempted at
	// all: whether its priority is lower than the gang's and nothing protects it. If it
	// is nil, no Pod may be preempted.
	Victim func(pod *Pod) (priority int32, preemptible bool)
	// Lost returns the work that is lost if a Pod is preempted, in GPU-seconds. If it is nil, it
	// does not matter.
	Lost func(pod *Pod) float64
	// Group returns the gang of a Pod, whose members are preempted together: if one of
	// them may not be, none may. Empty for a Pod without a gang; if it is nil, no Pod has
	// one.
	Group func(pod *Pod) string
	// Spare returns how many members of a group may be preempted while the others stay:
	// those that run above its minimum. Any of them may be, even if others of the group
	// may not. If it is nil, no group has spare members.
	Spare func(group string) int
	// Budgets returns the names of the disruption budgets that cover a Pod. If it is nil,
	// there are none.
	Budgets func(pod *Pod) []string
	// Allowed is how many disruptions each budget still allows; none if it is missing.
	// Budgets are never exceeded.
	Allowed map[string]int
}

// Preemption is which Pods to preempt so that a gang fits.
type Preemption struct {
	// Victims are the names of the Pods to preempt, sorted; none if the gang fits as it
	// is.
	Victims []string
	// Plan is where the gang goes then.
	Plan *Plan
}

// maxLevels is how many priorities are tried, from the lowest one that may suffice on.
// Only budgets, spare members and gangs of several roles need more than one; after that
// many, all priorities are allowed at once.
const maxLevels = 8

// Preempt finds running Pods to evict so that all members of a gang that must start fit,
// without changing the cluster. found is false if it finds none.
//
// The set of victims is minimal: with one Pod, or one group, fewer the gang does not fit.
// The choice follows kube-scheduler's preferences (pkg/scheduler/framework/preemption,
// pickOneNodeForPreemption): the priority of the highest victim is as low as possible;
// then the sum of the priorities, each counted from the lowest possible one, so that few
// Pods are better than many; and budgets are never violated. Among Pods of about equal
// priority, those go that lose the least work: what a Pod loses is worth less than one
// point of its priority.
//
// The lowest such priority is found by counting what would be free on each node, which is
// exact for a gang of one role. Up to that priority, members are placed one by one where
// making room costs the least; candidate sets are enumerated node by node as in
// Consolidate; see clearing. The best of several proposals wins, each after all Pods that
// can stay were put back (a deletion filter, Chinneck and Dravnieks 1991).
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
	p := &preemptor{cluster: c, gang: g, rules: &rules, start: c.domain(g.Within), demands: c.demands(g), nodes: map[*Domain][]*node{}}
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

// search tries the priorities that may suffice, lowest first, until one does.
func (p *preemptor) search() {
	whole := p.pool(false)
	pools := []*pool{whole}
	if whole.splittable {
		pools = append(pools, p.pool(true))
	}
	// Most Pods can be evicted where every spare member is a unit of its own.
	first, levels := p.levels(pools[len(pools)-1])
	for i, priority := range levels[first:] {
		if i == maxLevels {
			priority = levels[len(levels)-1]
		}
		for _, l := range pools {
			l.allowUpTo(priority)
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

// levels returns the priorities of all evictable units, lowest first, and the index of
// the first one that may make enough room. More evictions make more room, so bisection
// finds it.
func (p *preemptor) levels(l *pool) (first int, levels []int32) {
	for i := range l.info {
		if l.info[i].allowed {
			levels = append(levels, l.info[i].priority)
		}
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	first = sort.Search(len(levels), func(i int) bool {
		l.allowUpTo(levels[i])
		return slices.ContainsFunc(p.scopes(), func(scope *Domain) bool { return p.roomy(l, scope) })
	})
	return first, levels
}

// roomy reports whether a scope has room for each role if all movable units are evicted.
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

// scopes returns the domains that are searched one by one: those of the gang's level, if
// it has one, and the whole unless it requires one of these.
func (p *preemptor) scopes() (scopes []*Domain) {
	if p.gang.Level > p.start.Level {
		scopes = p.start.at(p.gang.Level)
		if p.gang.Required {
			return scopes
		}
	}
	return append(scopes, p.start)
}

// nodesOf returns the nodes of a scope, sorted by name, without the excluded ones.
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

// contains reports whether a node is in a domain and not excluded.
func (d *Domain) contains(n *node) bool {
	return n.hiddenIn == nil && n.domain.above(d.Level) == d
}

// explore looks for victims among the movable units.
func (p *preemptor) explore(l *pool) {
	scopes := slices.DeleteFunc(p.scopes(), func(scope *Domain) bool { return !p.roomy(l, scope) })
	for _, price := range []pricing{exactly, shared, thrifty} {
		if (price == shared && (!l.multiNode || p.members() == 1)) || (price == thrifty && (p.best != nil || len(l.limits) == 0)) {
			continue
		}
		l.price(price)
		menus := map[*Request]map[*node][]eviction{}
		for _, scope := range scopes {
			p.clear(l, scope, menus)
		}
	}
}

// exploreAtOnce evicts all movable units and puts back as many as it can. It finds what
// the search member by member may miss: for gangs of several roles, and with tight
// limits.
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

// clear looks for victims in a scope, trying several orders of the roles.
func (p *preemptor) clear(l *pool, scope *Domain, menus map[*Request]map[*node][]eviction) {
	for _, order := range orders(p.demands, scope) {
		w := &clearing{preemptor: p, pool: l, scope: scope, menus: menus, left: slices.Clone(l.limits), stamps: map[*node]int{}}
		if w.run(order) && p.propose(l, w.chosen, false) {
			return
		}
	}
}

// members returns how many members must start.
func (p *preemptor) members() int {
	sum := 0
	for _, d := range p.demands {
		sum += d.count
	}
	return sum
}
