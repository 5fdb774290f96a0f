// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"math"
	"slices"
)

// Preference decides between places of equal cost by the nodes' Traits.
type Preference interface {
	// Key identifies the preference: two with equal keys score all nodes alike.
	Key() string
	// Score returns how well nodes with some traits are liked, from 0 to 100. The result
	// must always be the same; it is cached.
	Score(traits string) float64
}

// preference is a Preference interned by a Cluster.
type preference struct {
	Preference
	// id numbers the preferences of a cluster from 1, each number once.
	id int
	// used is true if a sweep has found a request with it.
	used bool
}

// score is the cached result of a preference for nodes of a kind.
type score struct {
	preference int // its id; 0 if the slot is empty
	value      float64
}

// maxScores is the number of preferences for which a kind caches the score, like maxOffers.
const maxScores = 512

// maxScore is the highest score.
const maxScore = 100

// score returns how well a request likes nodes of the kind; 0 without a preference.
func (k *kind) score(r *Request) float64 {
	if r.preference == nil {
		return 0
	}
	known := slotOf(&k.scores, r.preference.id, maxScores)
	if known.preference != r.preference.id {
		*known = score{preference: r.preference.id, value: r.preference.evaluate(k.traits)}
	}
	return known.value
}

// evaluate returns a preference's score; an invalid one counts as the next valid one.
func (p *preference) evaluate(traits string) float64 {
	value := p.Score(traits)
	if math.IsNaN(value) {
		return 0
	}
	return min(max(value, 0), maxScore)
}

// preference returns the interned preference; nil for none.
func (c *Cluster) preference(p Preference) *preference {
	if p == nil {
		return nil
	}
	return c.preferences.intern(p.Key(), func(id int) *preference { return &preference{Preference: p, id: id} })
}

// SetPreferenceTolerance sets how much more a place may cost, in the units of the policy,
// for a Preference to choose it. With 0, the default, it only decides between equal costs.
func (c *Cluster) SetPreferenceTolerance(tolerance float64) { c.tolerance = max(tolerance, 0) }

// weighs reports whether a request may get a place that is not the cheapest.
func (c *Cluster) weighs(r *Request) bool { return r.preference != nil && c.tolerance > 0 }

// band returns which multiple of the tolerance a cost is above the lowest one. Costs of one
// band count as equal where there is a preference.
func (c *Cluster) band(cost, lowest float64) float64 {
	return math.Floor((cost - lowest) / c.tolerance)
}

// choice is a node that can take a request.
type choice struct {
	node *node // nil for none
	cost float64
}

// beats reports whether a request should rather go to a than to b. The order is total.
func (a choice) beats(b choice, r *Request) bool {
	if b.node == nil || a.cost != b.cost {
		return b.node == nil || a.cost < b.cost
	}
	return a.liked(b, r) < 0
}

// liked orders candidates of equal cost.
func (a choice) liked(b choice, r *Request) int {
	return cmp.Or(-cmp.Compare(a.score(r), b.score(r)), cmp.Compare(a.node.Name, b.node.Name))
}

func (a choice) score(r *Request) float64 { return a.node.layout.kind.score(r) }

// preferred returns the candidate with the highest score among those that cost about as
// little as the cheapest one.
func (c *Cluster) preferred(r *Request, within *Domain, cheapest choice) choice {
	best := cheapest
	within.canTake(r, 1, func(n *node) {
		next := choice{node: n, cost: c.cost(c.offer(n.state, r), n.state, r)}
		if c.band(next.cost, cheapest.cost) > 0 {
			return
		}
		if next.score(r) > best.score(r) || next.score(r) == best.score(r) && next.beats(best, r) {
			best = next
		}
	})
	return best
}

// sort sorts candidates, the best first.
func (c *Cluster) sort(list []choice, r *Request) {
	slices.SortFunc(list, func(a, b choice) int { return cmp.Or(cmp.Compare(a.cost, b.cost), a.liked(b, r)) })
	if len(list) == 0 || !c.weighs(r) {
		return
	}
	lowest := list[0].cost
	slices.SortStableFunc(list, func(a, b choice) int {
		return cmp.Or(cmp.Compare(c.band(a.cost, lowest), c.band(b.cost, lowest)), -cmp.Compare(a.score(r), b.score(r)))
	})
}
