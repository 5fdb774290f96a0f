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

// likes is a Preference for nodes whose traits have its letters, the more the better.
type likes string

func (l likes) Key() string { return string(l) }

func (l likes) Score(traits string) float64 {
	score := 0.
	for _, letter := range string(l) {
		if strings.ContainsRune(traits, letter) {
			score += 40
		}
	}
	return score
}

// scoring is a Preference with a given score, which counts the calls.
type scoring struct {
	value float64
	asked *int
}

func (scoring) Key() string { return "scoring" }

func (s scoring) Score(string) float64 {
	*s.asked++
	return s.value
}

func liking(p placement.Preference, shape shapeOf) shapeOf {
	shape.Preference = p
	return shape
}

func TestAPreferenceDecidesBetweenEqualCosts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		nodes     []*nodeBuilder
		shape     shapeOf
		tolerance float64
		want      string
	}{
		"nobody prefers anything":                 {[]*nodeBuilder{aNode("a", 4), aNode("b", 4).traits("x")}, whole(1), 0, "a"},
		"nodes are equal, and one is preferred":   {[]*nodeBuilder{aNode("a", 4), aNode("b", 4).traits("x")}, liking(likes("x"), whole(1)), 0, "b"},
		"both are preferred, one more":            {[]*nodeBuilder{aNode("a", 4).traits("x"), aNode("b", 4).traits("xy")}, liking(likes("xy"), whole(1)), 0, "b"},
		"both are preferred alike":                {[]*nodeBuilder{aNode("b", 4).traits("x"), aNode("a", 4).traits("y")}, liking(likes("xy"), whole(1)), 0, "a"},
		"another node packs better":               {[]*nodeBuilder{aNode("a", 3), aNode("b", 4).traits("x")}, liking(likes("x"), whole(1)), 0, "a"},
		"it packs better by less than tolerated":  {[]*nodeBuilder{aNode("a", 3), aNode("b", 4).traits("x")}, liking(likes("x"), whole(1)), 101, "b"},
		"it packs better by as much as tolerated": {[]*nodeBuilder{aNode("a", 3), aNode("b", 4).traits("x")}, liking(likes("x"), whole(1)), 100, "a"},
		"the tolerance is for those who prefer":   {[]*nodeBuilder{aNode("b", 3), aNode("a", 4).traits("x")}, whole(1), 101, "b"},
		"of two that are tolerated, the cheaper":  {[]*nodeBuilder{aNode("a", 4).traits("x"), aNode("b", 3).traits("xz"), aNode("c", 2)}, liking(likes("x"), whole(1)), 1000, "b"},
		"a preferred node is too small":           {[]*nodeBuilder{aNode("a", 4), aNode("b", 1).traits("x")}, liking(likes("x"), whole(2)), 1000, "a"},
		"a share":                                 {[]*nodeBuilder{aNode("a", 4), aNode("b", 4).traits("x")}, liking(likes("x"), share(30)), 0, "b"},
		"of the nodes that it names":              {[]*nodeBuilder{aNode("a", 4), aNode("b", 4).traits("x"), aNode("c", 4).traits("xy")}, at(named("a", "b"), liking(likes("xy"), whole(1))), 0, "b"},
		"with a selector":                         {[]*nodeBuilder{aNode("a", 4).traits("z"), aNode("b", 4).traits("x"), aNode("c", 4).traits("xz")}, on(letters("z"), liking(likes("x"), whole(1))), 0, "c"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, test.nodes...)
			c.SetPreferenceTolerance(test.tolerance)
			if got := find(t, c, test.shape).Node; got != test.want {
				t.Errorf("it goes to %s, want %s", got, test.want)
			}
			if got := c.Rank(c.Request(test.shape), c.Root())[0].Node; got != test.want {
				t.Errorf("ranked first is %s, want %s", got, test.want)
			}
		})
	}
}

func TestAGangFollowsItsPreferenceOnlyAsLongAsItPacksAsWell(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 2), aNode("b", 2).traits("x"), aNode("c", 2).traits("x"))
	plan, fits, err := c.Plan(gangOf(liking(likes("x"), whole(1)), 5, 5))
	if err != nil || !fits {
		t.Fatal(fits, err)
	}
	var nodes []string
	for i := range plan.Members {
		nodes = append(nodes, plan.Members[i].Node)
	}
	if got := strings.Join(nodes, " "); got != "b b c c a" {
		t.Errorf("the members go to %s", got)
	}
}

func TestAPreferenceIsEvaluatedOncePerKindOfNodes(t *testing.T) {
	t.Parallel()
	asked := 0
	c := placement.NewCluster(tightest{})
	for i := range 50 {
		set(t, c, aNode(nodeName(i), 4).traits(string(rune('a'+i%5))))
	}
	for range 10 {
		find(t, c, liking(scoring{1, &asked}, whole(1)))
		find(t, c, liking(scoring{1, &asked}, whole(2)))
	}
	if asked != 5 {
		t.Errorf("it is asked %d times about 5 kinds of nodes", asked)
	}
}

func TestAnInvalidScoreCountsAsTheNextValidOne(t *testing.T) {
	t.Parallel()
	for _, value := range []float64{math.NaN(), math.Inf(-1), -1, 101, math.Inf(1)} {
		asked := 0
		c := clusterOf(t, aNode("a", 4).traits("x"), aNode("b", 4))
		if got := find(t, c, liking(scoring{value, &asked}, whole(1))).Node; got != "a" || asked != 2 {
			t.Errorf("score %v: asked %d times, it goes to %s", value, asked, got)
		}
	}
}

func TestShapesWithEqualPreferencesAreOne(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("n", 1))
	a := c.Request(liking(likes("x"), whole(1)))
	if b := c.Request(liking(likes("x"), whole(1))); a != b {
		t.Error("the same shape with an equal preference is another request")
	}
	for _, shape := range []shapeOf{
		whole(1), liking(likes("y"), whole(1)), on(letters("x"), whole(1)), on(letters("x"), liking(likes(""), whole(1))),
		on(letters(""), liking(likes("x"), whole(1))),
	} {
		if c.Request(shape) == a {
			t.Errorf("%s is the same request", &shape)
		}
	}
}

// preferred returns which of the nodes in a domain a request should get, by trying all.
func (o *oracle) preferred(domain string, tolerance float64) (node string, cost float64) {
	o.t.Helper()
	costs, lowest := map[string]float64{}, math.Inf(1)
	for _, name := range o.want.within(domain) {
		if left := o.want.rest(name); left.fits(&o.request.Shape) {
			costs[name] = o.cheapest(name)
			lowest = min(lowest, costs[name])
		}
	}
	score := func(name string) float64 {
		if o.request.Preference == nil {
			return 0
		}
		return o.request.Preference.Score(o.want.nodes[name].Traits)
	}
	for _, name := range o.want.names() {
		its, fits := costs[name]
		if !fits || its != lowest && (o.request.Preference == nil || its >= lowest+tolerance) {
			continue
		}
		if node == "" || score(name) > score(node) || score(name) == score(node) && its < cost {
			node, cost = name, its
		}
	}
	return node, cost
}

func TestTheBestPlaceIsThePreferredOneAmongTheCheapest(t *testing.T) {
	t.Parallel()
	preferred := 0
	for seed := range uint64(200) {
		u := newUpdates(t, seeded(seed), limits{nodes: 7, cards: 6, levels: 2, alone: true})
		for range 80 {
			u.step()
		}
		for range 30 {
			shape := randomShape(u, 6)
			if preference := pick(u, "", "a", "b", "ab", "T"); preference != "" {
				shape.Preference = likes(preference)
			}
			tolerance := pick(u, 0, 0, 0.5, 1, 2.5)
			u.cluster.SetPreferenceTolerance(tolerance)
			o, domain := oracle{u, u.cluster.Request(shape)}, pick(u, "", "", "x", "y/z")
			d := search(u.cluster.Root(), domain)
			if d == nil {
				continue
			}
			place, found := u.cluster.Find(o.request, d)
			node, cost := o.preferred(domain, tolerance)
			if found != (node != "") || place.Node != node || place.Cost != cost {
				t.Fatalf("seed %d: %s goes to node %q at %v, want %q at %v", seed, &shape, place.Node, place.Cost, node, cost)
			}
			if ranked := u.cluster.Rank(o.request, d); found && ranked[0] != (placement.Ranked{Node: node, Cost: cost}) {
				t.Fatalf("seed %d: ranked first is %v, want %q at %v", seed, ranked[0], node, cost)
			}
			if plain, _ := o.best(domain); plain != node {
				preferred++
			}
		}
	}
	if preferred < 50 {
		t.Errorf("only %d places were decided by a preference: this proves little", preferred)
	}
}

func TestARankingIsTotalAndInBands(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 2), aNode("b", 3).traits("x"), aNode("c", 4), aNode("d", 5).traits("x"), aNode("e", 5).traits("x"))
	c.SetPreferenceTolerance(200)
	var got []string
	for _, one := range c.Rank(c.Request(liking(likes("x"), whole(1))), c.Root()) {
		got = append(got, one.Node)
	}
	if want := []string{"b", "a", "d", "e", "c"}; !slices.Equal(got, want) {
		t.Errorf("ranked %v, want %v", got, want)
	}
}
