// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// pool is the running units and which of them may be evicted.
type pool struct {
	*tenancy
	info []unitInfo // by unit.index
	// limits are how many Pods may be evicted in all, by limit: there is one for each
	// budget, and one for each group that is split because it has spare members.
	limits []int
	// splittable is true if there are groups that may be evicted as a whole, but need not
	// be.
	splittable bool
	// multiNode is true if there are groups on several nodes.
	multiNode bool
}

// unitInfo is what the rules determine about a unit.
type unitInfo struct {
	// priority is that of the unit's highest Pod.
	priority int32
	// allowed is true if the unit may be evicted by itself.
	allowed bool
	// cost is the sum of what the Pods cost: see costOf.
	cost    float64
	charges []charge
	// spare is how many members of a whole group may be evicted while the others stay.
	spare int
}

// charge is how many Pods a unit counts against a limit.
type charge struct{ limit, pods int }

// costOf returns a priority counted from the lowest possible one, plus 1, so that every
// Pod costs something. Sums of it are exact.
func costOf(priority int32) float64 { return float64(priority) - math.MinInt32 + 1 }

const (
	// halfLost is for how many GPU-seconds of lost work lostCost is half of its limit: 8 GPU-hours.
	halfLost = 8 * 60 * 60
	// lostSteps is how many values lostCost has. They are multiples of a power of two, so that sums
	// of costs are exact for about a thousand Pods, and about right for more.
	lostSteps = 1 << 11
)

// lostCost returns what lost work adds to the cost of a Pod: from 0 to less than 1, the difference
// of one point of priority.
func lostCost(gpuSeconds float64) float64 {
	gpuSeconds = max(gpuSeconds, 0)
	return math.Floor(lostSteps*gpuSeconds/(gpuSeconds+halfLost)) / lostSteps
}

// poolBuilder builds a pool.
type poolBuilder struct {
	pool    *pool
	cluster *Cluster
	rules   *PreemptionRules
	// splitGroups is true if groups with spare members are split into their members.
	splitGroups bool
	limitOf     map[string]int
	requests    map[equivalenceClass]*Request
}

// equivalenceClass is equal for Pods that are interchangeable as victims, but for their
// priority.
type equivalenceClass struct {
	cpu, memory   int64
	gpus, percent int
	others        string
	budgets       string
}

// candidate is a Pod and what the rules return for it.
type candidate struct {
	pod         *Pod
	group       string
	priority    int32
	preemptible bool
	// lost is the work that is lost with it: see lostCost.
	lost    float64
	budgets []string
}

// pool finds out what runs where and may be evicted. Groups are evicted as a whole, but a
// group with spare members is split into its members if some of them may not be evicted,
// or with splitGroups.
func (p *preemptor) pool(splitGroups bool) *pool {
	c := p.cluster
	b := poolBuilder{
		pool: &pool{tenancy: &tenancy{on: make(map[*node][]tenant, len(c.nodes))}}, cluster: c, rules: p.rules,
		splitGroups: splitGroups, limitOf: map[string]int{}, requests: map[equivalenceClass]*Request{},
	}
	var groups [][]candidate
	at := map[string]int{}
	for _, pod := range c.sortedPods() {
		victim := b.candidate(pod)
		if i, known := at[victim.group]; known && victim.group != "" {
			groups[i] = append(groups[i], victim)
			continue
		}
		at[victim.group] = len(groups)
		groups = append(groups, []candidate{victim})
	}
	for _, group := range groups {
		b.addGroup(group)
	}
	return b.pool
}

func (b *poolBuilder) candidate(pod *Pod) candidate {
	victim := candidate{pod: pod}
	victim.priority, victim.preemptible = b.rules.Victim(pod)
	if b.rules.Group != nil {
		victim.group = b.rules.Group(pod)
	}
	if victim.preemptible && b.rules.Lost != nil {
		victim.lost = lostCost(b.rules.Lost(pod))
	}
	if victim.preemptible && b.rules.Budgets != nil {
		victim.budgets = b.rules.Budgets(pod)
	}
	return victim
}

// addGroup adds the units of a group, or of a Pod without one.
func (b *poolBuilder) addGroup(group []candidate) {
	spare := 0
	if name := group[0].group; name != "" && b.rules.Spare != nil {
		spare = b.rules.Spare(name)
	}
	whole := unitInfo{allowed: true, spare: max(0, spare)}
	for i := range group {
		whole.allowed = whole.allowed && group[i].preemptible
		b.charge(&whole, group[i].budgets)
	}
	whole.allowed = whole.allowed && b.pool.withinLimits(whole.charges, b.pool.limits)
	if spare <= 0 || len(group) == 1 || (whole.allowed && !b.splitGroups) {
		b.pool.splittable = b.pool.splittable || (spare > 0 && len(group) > 1)
		b.addUnit(group, &whole)
		return
	}
	limit := b.limit(spare)
	for i := range group {
		single := unitInfo{allowed: group[i].preemptible, charges: []charge{{limit, 1}}}
		b.charge(&single, group[i].budgets)
		single.allowed = single.allowed && b.pool.withinLimits(single.charges, b.pool.limits)
		b.addUnit(group[i:i+1], &single)
	}
}

// limit adds a limit and returns its index.
func (b *poolBuilder) limit(pods int) int {
	b.pool.limits = append(b.pool.limits, pods)
	return len(b.pool.limits) - 1
}

// charge adds a Pod to the charges of its budgets.
func (b *poolBuilder) charge(to *unitInfo, budgets []string) {
	for i, name := range budgets {
		if slices.Contains(budgets[:i], name) {
			continue
		}
		limit, known := b.limitOf[name]
		if !known {
			limit = b.limit(max(0, b.rules.Allowed[name]))
			b.limitOf[name] = limit
		}
		at := slices.IndexFunc(to.charges, func(charged charge) bool { return charged.limit == limit })
		if at < 0 {
			at = len(to.charges)
			to.charges = append(to.charges, charge{limit: limit})
		}
		to.charges[at].pods++
	}
}

// withinLimits reports whether charges are within what is left of the limits.
func (l *pool) withinLimits(charges []charge, left []int) bool {
	return !slices.ContainsFunc(charges, func(charged charge) bool { return left[charged.limit] < charged.pods })
}

// addUnit adds a unit of Pods.
func (b *poolBuilder) addUnit(pods []candidate, info *unitInfo) {
	u := &unit{index: len(b.pool.units), group: pods[0].group}
	info.priority = math.MinInt32
	for i := range pods {
		victim := &pods[i]
		n := b.cluster.nodes[victim.pod.Node]
		r := resident{pod: victim.pod, node: n, request: b.request(victim), cost: costOf(victim.priority) + victim.lost}
		b.pool.multiNode = b.pool.multiNode || (info.allowed && n != b.cluster.nodes[pods[0].pod.Node])
		info.priority = max(info.priority, victim.priority)
		info.cost += r.cost
		u.pods = append(u.pods, r)
	}
	b.pool.units = append(b.pool.units, u)
	b.pool.info = append(b.pool.info, *info)
	b.pool.addToNodes(u)
}

// request returns the same request for equivalent Pods. It is not interned in the
// cluster.
func (b *poolBuilder) request(victim *candidate) *Request {
	use := &victim.pod.Use
	key := equivalenceClass{use.CPU, use.Memory, len(use.GPUs), use.Percent, use.Others.key(), strings.Join(victim.budgets, "\x00")}
	known := b.requests[key]
	if known == nil {
		known = &Request{Shape: Shape{CPU: use.CPU, Memory: use.Memory, Others: use.Others, GPUs: len(use.GPUs)}}
		if use.Percent < Card && len(use.GPUs) == 1 {
			known.GPUs, known.Share = 0, use.Percent
		}
		b.requests[key] = known
	}
	return known
}

// allowUpTo makes the evictable units up to a priority movable, and no others.
func (l *pool) allowUpTo(priority int32) {
	for i, u := range l.units {
		u.movable = l.info[i].allowed && l.info[i].priority <= priority
	}
}

// pricing is how units are priced when evictions are compared.
type pricing int

const (
	// exactly is their cost.
	exactly pricing = iota
	// shared is their cost divided by their nodes: evicting a unit makes room on all
	// of them.
	shared
	// thrifty adds a high price for what they need of limits, which could otherwise
	// be used up before there is room.
	thrifty
)

// price sets the costs of units.
func (l *pool) price(p pricing) {
	for i, u := range l.units {
		u.cost = l.info[i].cost
		switch {
		case p == shared && len(u.pods) > 1:
			nodes := map[*node]bool{}
			for j := range u.pods {
				nodes[u.pods[j].node] = true
			}
			u.cost /= float64(len(nodes))
		case p == thrifty:
			for _, charged := range l.info[i].charges {
				u.cost += math.MaxUint32 * float64(len(l.units)) * float64(charged.pods) / float64(l.limits[charged.limit])
			}
		}
	}
}

// usualCards is how many cards of a node are looked at without allocating memory.
const usualCards = 64

// capacity returns how many Pods of a request fit on a node if all movable units are
// evicted.
func (l *pool) capacity(n *node, r *Request) int {
	if n.fitEmpty(r) != Fits {
		return 0
	}
	var buffer [usualCards]int32
	v := n.vacancy(append(buffer[:0], n.free...))
	for i := range l.on[n] {
		if tenant := &l.on[n][i]; tenant.unit.movable && !tenant.unit.out {
			for _, use := range tenant.uses {
				v.give(use)
			}
		}
	}
	count := max(0, v.capacity(r))
	if r.CPU > 0 {
		count = min(count, int(max(0, v.cpu)/r.CPU))
	}
	if r.Memory > 0 {
		count = min(count, int(max(0, v.memory)/r.Memory))
	}
	return n.layout.kind.times(v.others, &slack{}, r.Others, count)
}

// affordable returns movable units of a scope that the limits allow to evict together:
// the lowest priorities first, then those that free the most GPUs for their cost.
func (l *pool) affordable(scope *Domain) (units []*unit) {
	left := slices.Clone(l.limits)
	density := func(u *unit) float64 { return l.info[u.index].cost / float64(u.percent()+1) }
	var order []*unit
	for _, u := range l.units {
		if u.movable && slices.ContainsFunc(u.pods, func(r resident) bool { return scope.contains(r.node) }) {
			order = append(order, u)
		}
	}
	slices.SortStableFunc(order, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(l.info[a.index].priority, l.info[b.index].priority), cmp.Compare(density(a), density(b)))
	})
	for _, u := range order {
		if l.withinLimits(l.info[u.index].charges, left) {
			l.deduct(u, left)
			units = append(units, u)
		}
	}
	return units
}

// deduct subtracts a unit's charges from what is left of the limits.
func (l *pool) deduct(u *unit, left []int) {
	for _, charged := range l.info[u.index].charges {
		left[charged.limit] -= charged.pods
	}
}
