// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// pool is who runs where and may leave.
type pool struct {
	*tenancy
	about []about // by unit.index
	// limits are how many Pods may leave in all, by limit: those of budgets, and of
	// groups of which some members are spare.
	limits []int
	// spared is true if there are groups that may leave whole, but need not.
	spared bool
	// spread is true if there are groups on several nodes.
	spread bool
}

// about is what is known of a unit.
type about struct {
	// priority is that of the unit's highest Pod.
	priority int32
	// allowed is true if the unit may leave by itself.
	allowed bool
	// cost is the sum of what the Pods cost: see costOf.
	cost   float64
	claims []claim
	// spare is how many of a whole group may leave while the others stay.
	spare int
}

// claim is how much of a limit a unit needs.
type claim struct{ limit, pods int }

// costOf is a priority counted from the lowest there can be, plus 1, so that every
// Pod costs something. Sums of it are exact.
func costOf(priority int32) float64 { return float64(priority) - math.MinInt32 + 1 }

// pooling builds a pool.
type pooling struct {
	*pool
	*preemptor
	// sparing is true if groups with spare members do not leave whole.
	sparing  bool
	limitOf  map[string]int
	requests map[equivalenceClass]*Request
}

// equivalenceClass is the same for Pods of which it makes no difference which one leaves,
// but for their priority.
type equivalenceClass struct {
	cpu, memory   int64
	gpus, percent int
	budgets       string
}

// candidate is a Pod and what the rules say of it.
type candidate struct {
	pod      *Pod
	group    string
	priority int32
	may      bool
	budgets  []string
}

// pool finds out who runs where and may leave. Groups leave whole, but for their
// spare members if some may not leave, or if sparing.
func (p *preemptor) pool(sparing bool) *pool {
	c := p.cluster
	b := pooling{
		pool: &pool{tenancy: &tenancy{on: make(map[*node][]tenant, len(c.nodes))}}, preemptor: p,
		sparing: sparing, limitOf: map[string]int{}, requests: map[equivalenceClass]*Request{},
	}
	var groups [][]candidate
	at := map[string]int{}
	for _, pod := range c.sortedPods() {
		one := b.candidate(pod)
		if i, known := at[one.group]; known && one.group != "" {
			groups[i] = append(groups[i], one)
			continue
		}
		at[one.group] = len(groups)
		groups = append(groups, []candidate{one})
	}
	for _, group := range groups {
		b.addGroup(group)
	}
	return b.pool
}

func (b *pooling) candidate(pod *Pod) candidate {
	one := candidate{pod: pod}
	one.priority, one.may = b.rules.Victim(pod)
	if b.rules.Group != nil {
		one.group = b.rules.Group(pod)
	}
	if one.may && b.rules.Budgets != nil {
		one.budgets = b.rules.Budgets(pod)
	}
	return one
}

// addGroup makes units of a group, or of a Pod that is alone.
func (b *pooling) addGroup(group []candidate) {
	spare := 0
	if name := group[0].group; name != "" && b.rules.Spare != nil {
		spare = b.rules.Spare(name)
	}
	whole := about{allowed: true, spare: max(0, spare)}
	for i := range group {
		whole.allowed = whole.allowed && group[i].may
		b.claim(&whole, group[i].budgets)
	}
	whole.allowed = whole.allowed && b.within(whole.claims, b.limits)
	if spare <= 0 || len(group) == 1 || (whole.allowed && !b.sparing) {
		b.spared = b.spared || (spare > 0 && len(group) > 1)
		b.addUnit(group, &whole)
		return
	}
	limit := b.limit(spare)
	for i := range group {
		single := about{allowed: group[i].may, claims: []claim{{limit, 1}}}
		b.claim(&single, group[i].budgets)
		single.allowed = single.allowed && b.within(single.claims, b.limits)
		b.addUnit(group[i:i+1], &single)
	}
}

// limit makes a limit.
func (b *pooling) limit(pods int) int {
	b.limits = append(b.limits, pods)
	return len(b.limits) - 1
}

// claim adds what a Pod's budgets are needed for.
func (b *pooling) claim(to *about, budgets []string) {
	for i, name := range budgets {
		if slices.Contains(budgets[:i], name) {
			continue
		}
		limit, known := b.limitOf[name]
		if !known {
			limit = b.limit(max(0, b.rules.Allowed[name]))
			b.limitOf[name] = limit
		}
		at := slices.IndexFunc(to.claims, func(one claim) bool { return one.limit == limit })
		if at < 0 {
			at = len(to.claims)
			to.claims = append(to.claims, claim{limit: limit})
		}
		to.claims[at].pods++
	}
}

// within reports whether limits allow some claims.
func (l *pool) within(claims []claim, left []int) bool {
	return !slices.ContainsFunc(claims, func(one claim) bool { return left[one.limit] < one.pods })
}

// addUnit makes a unit of Pods.
func (b *pooling) addUnit(pods []candidate, its *about) {
	u := &unit{index: len(b.units), group: pods[0].group}
	its.priority = math.MinInt32
	for i := range pods {
		one := &pods[i]
		n := b.cluster.nodes[one.pod.Node]
		r := resident{pod: one.pod, node: n, request: b.request(one), cost: costOf(one.priority)}
		b.spread = b.spread || (its.allowed && n != b.cluster.nodes[pods[0].pod.Node])
		its.priority = max(its.priority, one.priority)
		its.cost += r.cost
		u.pods = append(u.pods, r)
	}
	b.units = append(b.units, u)
	b.about = append(b.about, *its)
	b.settleIn(u)
}

// request returns a request that is the same for Pods that are alike. The cluster
// does not need to know it.
func (b *pooling) request(one *candidate) *Request {
	use := &one.pod.Use
	key := equivalenceClass{use.CPU, use.Memory, len(use.GPUs), use.Percent, strings.Join(one.budgets, "\x00")}
	known := b.requests[key]
	if known == nil {
		known = &Request{Shape: Shape{CPU: use.CPU, Memory: use.Memory, GPUs: len(use.GPUs)}}
		if use.Percent < Card && len(use.GPUs) == 1 {
			known.GPUs, known.Share = 0, use.Percent
		}
		b.requests[key] = known
	}
	return known
}

// open lets all leave up to a priority.
func (l *pool) open(priority int32) {
	for i, u := range l.units {
		u.movable = l.about[i].allowed && l.about[i].priority <= priority
	}
}

// pricing is what units are taken to cost when ways to make room are compared.
type pricing int

const (
	// exactly is what they cost.
	exactly pricing = iota
	// shared is that for each of a unit's nodes: if it leaves, there is room on all
	// of them.
	shared
	// thrifty is what they need of limits, for want of which there may be no way
	// otherwise.
	thrifty
)

// price sets what units cost.
func (l *pool) price(p pricing) {
	for i, u := range l.units {
		u.cost = l.about[i].cost
		switch {
		case p == shared && len(u.pods) > 1:
			nodes := map[*node]bool{}
			for j := range u.pods {
				nodes[u.pods[j].node] = true
			}
			u.cost /= float64(len(nodes))
		case p == thrifty:
			for _, one := range l.about[i].claims {
				u.cost += math.MaxUint32 * float64(len(l.units)) * float64(one.pods) / float64(l.limits[one.limit])
			}
		}
	}
}

// capacity is how many Pods of a request a node has room for when all leave that
// may.
func (l *pool) capacity(n *node, r *Request) int {
	if n.layout.kind.fit(r) != Fits {
		return 0
	}
	var free [MaxCards]int32
	v := vacancy{cpu: n.cpu, memory: n.memory, slots: n.slots, free: free[:copy(free[:], n.free)]}
	for i := range l.on[n] {
		if one := &l.on[n][i]; one.unit.movable && !one.unit.out {
			v.add(one.uses, 1)
		}
	}
	count := max(0, v.often(n, r))
	if r.CPU > 0 {
		count = min(count, int(max(0, v.cpu)/r.CPU))
	}
	if r.Memory > 0 {
		count = min(count, int(max(0, v.memory)/r.Memory))
	}
	return count
}

// affordable returns units of a scope that may leave together, the lowest
// priorities first, then those that give the most for what they cost.
func (l *pool) affordable(scope *Domain) (units []*unit) {
	left := slices.Clone(l.limits)
	density := func(u *unit) float64 { return l.about[u.index].cost / float64(u.percent()+1) }
	var order []*unit
	for _, u := range l.units {
		if u.movable && slices.ContainsFunc(u.pods, func(r resident) bool { return scope.has(r.node) }) {
			order = append(order, u)
		}
	}
	slices.SortStableFunc(order, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(l.about[a.index].priority, l.about[b.index].priority), cmp.Compare(density(a), density(b)))
	})
	for _, u := range order {
		if l.within(l.about[u.index].claims, left) {
			l.use(u, left)
			units = append(units, u)
		}
	}
	return units
}

// use takes a unit's claims from what limits leave.
func (l *pool) use(u *unit, left []int) {
	for _, one := range l.about[u.index].claims {
		left[one.limit] -= one.pods
	}
}
