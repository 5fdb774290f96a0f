// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"
)

// need is what room has to be made for.
type need struct {
	request *Request
	within  *Domain
}

// menu is all candidate evictions for a need, before anything is moved.
type menu struct {
	// byCost is ordered by cost, byEstimate by the estimated cost.
	byCost, byEstimate []eviction
	// least is the lowest cost per Pod for which room is made.
	least float64
}

// menu returns the candidate evictions for a need, from a cache. The cluster must be in
// its initial state.
func (s *searcher) menu(n need, eager bool) *menu {
	m := s.menus[n]
	if m == nil {
		m = &menu{least: math.Inf(1)}
		s.menus[n] = m
		order := map[*State]int{}
		for _, node := range s.nodes {
			if _, known := order[node.state]; !known {
				order[node.state] = len(order)
			}
			if n.within.Level > 0 && node.domain.above(n.within.Level) != n.within {
				continue
			}
			m.byCost = append(m.byCost, s.evictions(node, n.request)...)
		}
		slices.SortStableFunc(m.byCost, func(a, b eviction) int {
			return cmp.Or(compareEvictions(&a, &b), cmp.Compare(order[a.node.state], order[b.node.state]))
		})
		for i := range m.byCost {
			m.least = min(m.least, m.byCost[i].cost/float64(max(1, m.byCost[i].room)))
		}
	}
	if eager && m.byEstimate == nil && len(m.byCost) > 0 {
		m.byEstimate = slices.Clone(m.byCost)
		for i := range m.byEstimate {
			option := &m.byEstimate[i]
			option.estimate = option.cost
			for _, u := range option.units {
				option.estimate += s.burden(u)
			}
		}
		slices.SortStableFunc(m.byEstimate, func(a, b eviction) int { return cmp.Compare(a.estimate, b.estimate) })
	}
	return m
}

// compareEvictions orders by cost, and puts evictions of equivalent units next to each
// other.
func compareEvictions(a, b *eviction) int {
	byRequest := func(x, y *unit) int {
		return cmp.Or(cmp.Compare(x.pods[0].request.id, y.pods[0].request.id), cmp.Compare(x.cost, y.cost))
	}
	return cmp.Or(
		cmp.Compare(a.cost, b.cost), cmp.Compare(a.moves, b.moves), slices.CompareFunc(a.units, b.units, byRequest),
	)
}

// burden estimates the additional cost of placing a unit: nothing if there is room for
// its Pods already, else that of the cheapest way to make some.
func (s *searcher) burden(u *unit) float64 {
	sum := 0.0
	for i := range u.pods {
		sum += s.price(u.pods[i].request)
	}
	return sum
}

// price estimates the cost of room for a request. Room that the gang can use does not
// count, as the gang will use it; nor does making room by moving units of the same size
// or larger, which leads nowhere.
func (s *searcher) price(r *Request) float64 {
	if price, known := s.prices[r]; known {
		return price
	}
	price := 0.0
	if s.cluster.root.Room(r) == 0 || s.contested(r) {
		whole := s.menu(need{r, s.cluster.root}, false)
		price = whole.least
		for i := range whole.byCost {
			if option := &whole.byCost[i]; size(option.units) < r.Percent() {
				price = option.cost
				break
			}
		}
	}
	if math.IsInf(price, 1) {
		price = s.costliest
	}
	s.prices[r] = price
	return price
}

// contested reports whether the gang can use the places of a request.
func (s *searcher) contested(r *Request) bool {
	return slices.ContainsFunc(s.gang.Roles, func(role Role) bool {
		return role.Shape.Percent() > 0 && r.Percent() >= role.Shape.Percent()
	})
}
