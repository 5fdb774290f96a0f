// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math"
	"slices"
)

// The bounds of a search.
const (
	// maxChain is the maximum length of a chain of Pods that make room for each other: a
	// Pod that moves for the gang has depth 1, one that moves for that Pod depth 2. Two
	// would mostly do; a third is tried last, as it costs more.
	maxChain = 3
	// maxTrials is how many sets each pass tries, minTrials the minimum if a pass is
	// split among domains.
	maxTrials = 400
	minTrials = 50
	// heavy is how many Pods to place make a trial count twice.
	heavy = 16
)

// searcher looks for the cheapest set of units whose moves let a gang fit.
//
// A trial lifts all units of a set, places the gang, and then the units. If something
// finds no place, the set grows by each of the candidate evictions for it (menu). Passes
// try the sets best first, each with its own strategy, until the first solution; the last
// pass uses a lower bound of a set's cost, and ends when nothing cheaper than the best
// solution can be left.
type searcher struct {
	*tenancy
	cluster *Cluster
	gang    *Gang
	rules   *MoveRules
	start   *Domain
	menus   map[need]*menu
	tried   map[string]*trial
	// prices caches the estimated cost of room for requests; costliest is the price if
	// none can be made: that of the most costly unit.
	prices    map[*Request]float64
	costliest float64
	best      *trial
}

// moved is a unit of a set; depth is its place in a chain, from 1.
type moved struct {
	unit  *unit
	depth int
}

func (c *Cluster) searcher(g *Gang, rules *MoveRules) *searcher {
	s := &searcher{
		tenancy: c.tenants(rules), cluster: c, gang: g, rules: rules, start: c.domain(g.Within),
		menus: map[need]*menu{}, tried: map[string]*trial{}, prices: map[*Request]float64{},
	}
	for _, u := range s.units {
		s.costliest = max(s.costliest, u.cost)
	}
	return s
}

// scopes returns the domains in one of which the gang has to be.
func (s *searcher) scopes() []*Domain {
	if !s.gang.Required {
		return []*Domain{s.start}
	}
	return s.start.at(s.gang.Level)
}

// search returns the best successful trial; nil if it finds none.
func (s *searcher) search() *trial {
	scopes := s.scopes()
	s.pass(eager, scopes, maxTrials)
	if s.best == nil {
		for i := range scopes {
			s.pass(greedy, scopes[i:i+1], max(minTrials, maxTrials/len(scopes)))
		}
	}
	s.pass(exact, scopes, maxTrials)
	return s.best
}

// strategy is the order in which a pass tries sets.
type strategy int

const (
	// exact: by the cost so far and a lower bound of the remaining cost.
	exact strategy = iota
	// eager: by an estimate of the total cost.
	eager
	// greedy: by how little is still without a place. It finds a solution where
	// the others would first try all cheaper sets that lead nowhere.
	greedy
)

// branch is a trial and a list of evictions, one of which is added next.
type branch struct {
	base  *trial
	list  []eviction
	index int
	need  item
	// near is true if the list is of nodes that the trial has already changed, for which
	// the menu's entries are stale.
	near bool
	// least is the lowest cost per Pod for which room is made.
	least float64
	// burden estimates the additional cost of the trial's own moves.
	burden float64
	// expected is the expected total cost of the set in the end.
	expected float64
	// unplaced is how many will still be without a place.
	unplaced int
	moves    int
	number   int
}

// frontier is the branches not yet tried, best first.
type frontier struct {
	branches []branch
	strategy strategy
	numbers  int
}

func (f *frontier) Len() int { return len(f.branches) }
func (f *frontier) Less(i, j int) bool {
	a, b := &f.branches[i], &f.branches[j]
	if f.strategy == greedy && a.unplaced != b.unplaced {
		return a.unplaced < b.unplaced
	}
	if math.Abs(a.expected-b.expected) > tie {
		return a.expected < b.expected
	}
	return cmp.Or(cmp.Compare(a.moves, b.moves), cmp.Compare(a.number, b.number)) < 0
}
func (f *frontier) Swap(i, j int) { f.branches[i], f.branches[j] = f.branches[j], f.branches[i] }
func (f *frontier) Push(b any)    { f.branches = append(f.branches, b.(branch)) } //nolint:forcetypeassert // only branches are pushed
func (f *frontier) Pop() any {
	last := f.branches[len(f.branches)-1]
	f.branches = f.branches[:len(f.branches)-1]
	return last
}

// pass tries the sets, best first, until one succeeds.
func (s *searcher) pass(by strategy, scopes []*Domain, trials int) {
	f := &frontier{strategy: by}
	members := 0
	for i := range s.gang.Roles {
		members += s.gang.Roles[i].Min
	}
	seen := map[string]bool{}
	for _, scope := range scopes {
		s.expand(f, s.try(nil, scope))
	}
	for trials > 0 && f.Len() > 0 {
		popped := heap.Pop(f).(branch) //nolint:forcetypeassert // only branches are pushed
		if s.best != nil && popped.expected >= s.best.cost-tie {
			return
		}
		set, ok := popped.set()
		key := setKey(set, popped.base.within)
		if !ok || seen[key] {
			s.push(f, popped.next())
			continue
		}
		seen[key] = true
		trials -= 1 + (members+len(set))/heavy
		result := s.tried[key]
		if result == nil {
			result = s.try(set, popped.base.within)
			s.tried[key] = result
		}
		next := popped.next()
		next.unplaced = s.unplaced(f, result) // similar ones will probably get as far
		s.push(f, next)
		if result.done {
			if s.best == nil || result.cost < s.best.cost-tie {
				s.best = result
			}
			if by != exact || popped.expected >= s.best.cost-tie {
				return
			}
			continue
		}
		s.expand(f, result)
	}
}

// next is the branch with the next eviction of its list.
func (b *branch) next() branch {
	next := *b
	next.index = following(b.list, b.index)
	return next
}

// following returns the index of the next eviction that is not equivalent to the one
// before: if that fails, its equivalents fail as well.
func following(list []eviction, index int) int {
	next := index + 1
	for next < len(list) && list[index].alike(&list[next]) {
		next++
	}
	return next
}

// alike reports whether it makes no difference which of two evictions is chosen.
func (e *eviction) alike(other *eviction) bool {
	return e.node != other.node && e.node.state == other.node.state &&
		slices.EqualFunc(e.units, other.units, func(a, b *unit) bool { return a.alike(b) })
}

// set returns the units of a branch; ok is false if its eviction has a unit that is in
// the base trial already.
func (b *branch) set() (set []moved, ok bool) {
	set = slices.Clone(b.base.set)
	for _, u := range b.list[b.index].units {
		set = append(set, moved{unit: u, depth: b.need.depth + 1})
	}
	slices.SortFunc(set, func(a, b moved) int { return cmp.Compare(a.unit.index, b.unit.index) })
	for i := 1; i < len(set); i++ {
		if set[i].unit == set[i-1].unit {
			return nil, false
		}
	}
	return set, true
}

func setKey(set []moved, within *Domain) string {
	key := make([]byte, 0, 64)
	for _, mover := range set {
		key = binary.AppendUvarint(key, uint64(mover.unit.index)+1) //nolint:gosec // not negative
	}
	return string(append(append(key, 0), within.Name...))
}

// expand adds the branches of a failed trial.
func (s *searcher) expand(f *frontier, t *trial) {
	for i, needed := range t.needs {
		if needed.depth >= maxChain {
			continue
		}
		whole := s.menu(need{needed.request, needed.within}, f.strategy != exact)
		base := branch{base: t, need: needed, least: whole.least, burden: s.burdens(f, t, needed)}
		base.list = whole.byCost
		if f.strategy != exact {
			base.list = whole.byEstimate
		}
		if base.unplaced = s.unplaced(f, t); i == 0 {
			base.unplaced--
		}
		s.push(f, base)
	}
	for _, close := range t.near {
		if close.need.depth >= maxChain {
			continue
		}
		least := math.Inf(1)
		for i := range close.list {
			least = min(least, close.list[i].cost/float64(max(1, close.list[i].room)))
		}
		s.push(f, branch{base: t, need: close.need, list: close.list, near: true, least: least, unplaced: s.unplaced(f, t) - 1, burden: s.burdens(f, t, close.need)})
	}
}

// outlook estimates the cost of the eviction and of those needed after it, probably the
// next ones of the list, until no member of the gang is missing.
func (b *branch) outlook() float64 {
	sum, missing := 0.0, max(1, b.base.missing)
	for i := b.index; i < len(b.list) && missing > 0; i++ {
		if option := &b.list[i]; b.near || !b.base.touched[option.node] {
			sum += option.estimate
			missing -= max(1, option.room)
		}
	}
	return sum
}

// unplaced returns how many units of a trial found no place, or will not once the gang's
// missing members have theirs.
func (s *searcher) unplaced(f *frontier, t *trial) int {
	if f.strategy != greedy || t.missing == 0 {
		return len(t.stuck)
	}
	count := t.missing
	for _, u := range t.stuck {
		if s.burden(u) > 0 {
			count++
		}
	}
	return count
}

// burdens estimates the additional cost of a trial's units, except the one that room is
// made for.
func (s *searcher) burdens(f *frontier, t *trial, n item) float64 {
	if f.strategy == exact {
		return 0
	}
	sum := 0.0
	for _, u := range t.stuck {
		if u != n.unit {
			sum += s.burden(u)
		}
	}
	return sum
}

// push adds a branch, starting with its first allowed eviction.
func (s *searcher) push(f *frontier, b branch) {
	for b.index < len(b.list) {
		option := &b.list[b.index]
		cost := b.base.cost + option.cost
		b.moves = b.base.count + option.moves
		if !s.rules.allows(b.moves, cost) || (!b.near && b.base.touched[option.node]) {
			b.index++
			continue
		}
		if f.strategy == exact {
			b.expected = cost + b.least*float64(max(0, b.base.missing-option.room))
		} else {
			b.expected = b.base.cost + b.burden + b.outlook()
		}
		b.number = f.numbers
		f.numbers++
		heap.Push(f, b)
		return
	}
}
