// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// oracle finds places by trying all.
type oracle struct {
	*updates
	request *placement.Request
}

// cost returns the policy's price of some cards of a node. The States before and after
// come from actually placing a Pod.
func (o *oracle) cost(node string, cards []int) float64 {
	o.t.Helper()
	step := placement.Step{Request: o.request, Before: o.cluster.StateOf(node)}
	holds := placement.Use{CPU: o.request.CPU, Memory: o.request.Memory, Others: o.request.Others, GPUs: cards}
	switch {
	case o.request.Share > 0:
		left := o.want.rest(node)
		holds.Percent, step.CardFree = o.request.Share, left.cards[cards[0]]
	case o.request.GPUs > 0:
		holds.Percent = placement.Card
	}
	o.cluster.Try(func() bool {
		run(o.t, o.cluster, "oracle", node, holds)
		step.After = o.cluster.StateOf(node)
		return false
	})
	return o.policy.Price(step) + o.policy.Surcharge(o.request, step.Before)
}

// cheapest returns the lowest cost on a node that the request fits on.
func (o *oracle) cheapest(node string) float64 {
	o.t.Helper()
	left := o.want.rest(node)
	switch {
	case o.request.Share > 0:
		lowest := math.Inf(1)
		for _, card := range left.usable(&o.request.Shape) {
			lowest = min(lowest, o.cost(node, []int{card}))
		}
		return lowest
	case o.request.GPUs > 0:
		// The policy does not choose whole cards: see TestNVLinkGroups….
		place, found := o.cluster.Find(o.request, domainOf(o.t, o.cluster, strings.Join(left.node.Domains, "/")))
		if !found || place.Node != node {
			o.t.Fatalf("%s goes to %q, found is %v, but fits on %s", &o.request.Shape, place.Node, found, node)
		}
		return o.cost(node, place.GPUs)
	}
	return o.cost(node, nil)
}

// best returns the node with the lowest cost within a domain, the first among equals;
// empty if the request fits nowhere.
func (o *oracle) best(domain string) (node string, cost float64) {
	o.t.Helper()
	for _, name := range o.want.within(domain) {
		if left := o.want.rest(name); !left.fits(&o.request.Shape) {
			continue
		}
		if its := o.cheapest(name); node == "" || its < cost {
			node, cost = name, its
		}
	}
	return node, cost
}

// checkPlace checks that a place is available.
func (o *oracle) checkPlace(place placement.Place) {
	o.t.Helper()
	left, s := o.want.rest(place.Node), &o.request.Shape
	usable := left.usable(s)
	wanted, percent := s.GPUs, 0
	if s.Percent() > 0 {
		wanted, percent = max(1, s.GPUs), min(placement.Card, s.Percent())
	}
	if !left.fits(s) || place.CPU != s.CPU || place.Memory != s.Memory || !slices.Equal(place.Others, s.Others) || place.Percent != percent || len(place.GPUs) != wanted {
		o.t.Fatalf("%s can't have %+v of %s", s, place, left.signature())
	}
	for i, card := range place.GPUs {
		if !slices.Contains(usable, card) || slices.Contains(place.GPUs[:i], card) {
			o.t.Fatalf("%s can't have GPU %d of %s", s, card, left.signature())
		}
	}
	if got := o.cost(place.Node, place.GPUs); got != place.Cost {
		o.t.Fatalf("%s on %+v costs %v", s, place, got)
	}
}

func TestTheCheapestPlaceIsFound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		u := newUpdates(t, seeded(seed), limits{nodes: 7, cards: 6, levels: 2, alone: true})
		for range 80 {
			u.step()
		}
		for range 30 {
			if oneIn(u, 4) {
				u.step() // prices change as well
			}
			o := oracle{u, u.cluster.Request(randomShape(u, 6))}
			domain := pick(u, "", "", "x", "y/z")
			d := search(u.cluster.Root(), domain)
			if d == nil {
				continue
			}
			place, found := u.cluster.Find(o.request, d)
			node, cost := o.best(domain)
			if found != (node != "") || place.Node != node || place.Cost != cost {
				t.Fatalf("seed %d: %s goes to node %q at %v, want %q at %v", seed, &o.request.Shape, place.Node, place.Cost, node, cost)
			}
			if found {
				o.checkPlace(place)
			}
		}
	}
}

func TestBeginIsCalledForEachDecision(t *testing.T) {
	t.Parallel()
	policy := &whimsical{}
	c := placement.NewCluster(policy)
	set(t, c, aNode("n", 4))
	find(t, c, whole(1))
	find(t, c, whole(1))
	if policy.begun != 2 {
		t.Errorf("the policy was told of %d decisions, want 2", policy.begun)
	}
}

// group is an NVLink group of a node; the one that is not linked has the cards without a
// group.
type group struct {
	linked bool
	cards  []int // all of them
	usable []int // those that are available
	taken  int
}

// splits reports whether taking that many cards splits a completely free group.
func (g *group) splits(left *rest, cards int) bool {
	free := 0
	for _, card := range g.cards {
		if left.cards[card] == 100 {
			free++
		}
	}
	return g.linked && free == len(g.cards) && cards > 0 && cards < len(g.cards)
}

func groupsOf(left *rest, s *placement.Shape, taken []int) []*group {
	byID := map[int]*group{}
	var list []*group
	usable := left.usable(s)
	for card, gpu := range left.node.GPUs {
		id := max(gpu.Group, -1)
		if byID[id] == nil {
			byID[id] = &group{linked: id >= 0}
			list = append(list, byID[id])
		}
		g := byID[id]
		g.cards = append(g.cards, card)
		if slices.Contains(usable, card) {
			g.usable = append(g.usable, card)
		}
		if slices.Contains(taken, card) {
			g.taken++
		}
	}
	return list
}

// fewest returns the smallest number of groups that have enough cards.
func fewest(groups []*group, cards int) int {
	var sizes []int
	for _, g := range groups {
		sizes = append(sizes, len(g.usable))
	}
	slices.Sort(sizes)
	count := 0
	for cards > 0 {
		count++
		cards -= sizes[len(sizes)-count]
	}
	return count
}

func TestNVLinkGroupsStayWhole(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1500) {
		u := newUpdates(t, seeded(seed), limits{nodes: 1, cards: 8})
		u.setNode()
		for range u.IntN(5) {
			u.place()
		}
		left := u.want.rest(nodeName(u.IntN(1)))
		s := placement.Shape{GPUs: 1 + u.IntN(5), GPUMemory: pick(u, int64(0), 0, 41)}
		if left.node.Name == "" || !left.fits(&s) {
			continue
		}
		checkGroups(t, &left, &s, find(t, u.cluster, s).GPUs)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// checkGroups checks the cards that were taken against all alternatives.
func checkGroups(t *testing.T, left *rest, s *placement.Shape, taken []int) {
	t.Helper()
	groups := groupsOf(left, s, taken)
	mixed := slices.ContainsFunc(groups, func(g *group) bool { return !g.linked }) && len(groups) > 1
	touched := 0
	var from *group
	for _, g := range groups {
		if g.taken > 0 {
			from = g
			touched++
		}
	}
	least := fewest(groups, s.GPUs)
	if touched != least && (!mixed || least == 1) {
		t.Errorf("%d GPUs come from %d groups, %d would do: %v of %s", s.GPUs, touched, least, taken, left.signature())
	}
	if touched > 1 {
		return
	}
	for _, g := range groups {
		if len(g.usable) >= s.GPUs {
			if what := from.worse(g, left, s.GPUs); what != "" {
				t.Errorf("%s: %v of %s", what, taken, left.signature())
			}
		}
	}
}

// worse returns why another group would have been better for that many cards.
func (g *group) worse(other *group, left *rest, cards int) string {
	switch {
	case cards > 1 && g.linked != other.linked:
		if other.linked {
			return "GPUs have no NVLink, others have"
		}
	case g.splits(left, cards) != other.splits(left, cards):
		if g.splits(left, cards) {
			return "a group was split without need"
		}
	case len(other.usable) < len(g.usable):
		return "a smaller rest was possible"
	}
	return ""
}
