// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"
)

// need is what room is made for.
type need struct {
	request *Request
	within  *Domain
}

// menu is all ways to make room for something, with nothing moved so far.
type menu struct {
	// byCost is ordered by cost, byEstimate by the estimated cost.
	byCost, byEstimate []eviction
	// least is the lowest cost per Pod for which room is made.
	least float64
}

// menu returns all ways to make room for something. The cluster must be as it
// was at first.
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
			one := &m.byEstimate[i]
			one.estimate = one.cost
			for _, u := range one.units {
				one.estimate += s.burden(u)
			}
		}
		slices.SortStableFunc(m.byEstimate, func(a, b eviction) int { return cmp.Compare(a.estimate, b.estimate) })
	}
	return m
}

// compareEvictions brings those with like units beside each other.
func compareEvictions(a, b *eviction) int {
	byRequest := func(x, y *unit) int {
		return cmp.Or(cmp.Compare(x.pods[0].request.id, y.pods[0].request.id), cmp.Compare(x.cost, y.cost))
	}
	return cmp.Or(
		cmp.Compare(a.cost, b.cost), cmp.Compare(a.moves, b.moves), slices.CompareFunc(a.units, b.units, byRequest),
	)
}

// burden estimates what a unit's move needs besides: nothing if there is room
// for its Pods already, else the cheapest way to make some.
func (s *searcher) burden(u *unit) float64 {
	sum := 0.0
	for i := range u.pods {
		sum += s.price(u.pods[i].request)
	}
	return sum
}

// price estimates what room for a request costs. Room that the gang can use will
// be used by the gang, and to make room by moving what is as large leads nowhere.
func (s *searcher) price(r *Request) float64 {
	if price, known := s.prices[r]; known {
		return price
	}
	price := 0.0
	if s.cluster.root.Room(r) == 0 || s.contested(r) {
		whole := s.menu(need{r, s.cluster.root}, false)
		price = whole.least
		for i := range whole.byCost {
			if one := &whole.byCost[i]; size(one.units) < r.Percent() {
				price = one.cost
				break
			}
		}
	}
	if math.IsInf(price, 1) {
		price = s.dearest
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
