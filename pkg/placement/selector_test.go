// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// letters is a Selector that admits nodes whose traits have all its letters. An
// upper-case letter of a node is a taint, which is tolerated by a selector that has it.
type letters string

func (l letters) Key() string { return string(l) }

func (l letters) Admits(traits string) placement.Reason {
	for _, letter := range string(l) {
		if letter >= 'a' && !strings.ContainsRune(traits, letter) {
			return placement.OtherLabels
		}
	}
	for _, letter := range traits {
		if letter < 'a' && !strings.ContainsRune(string(l), letter) {
			return placement.Tainted
		}
	}
	return placement.Fits
}

// counting counts the calls.
type counting struct {
	placement.Selector
	asked *int
}

func (c counting) Admits(traits string) placement.Reason {
	*c.asked++
	return c.Selector.Admits(traits)
}

// odd returns invalid results.
type odd struct{ placement.Reason }

func (odd) Key() string                      { return "odd" }
func (o odd) Admits(string) placement.Reason { return o.Reason }

func (b *nodeBuilder) traits(traits string) *nodeBuilder {
	b.Traits = traits
	return b
}

func on(s placement.Selector, shape shapeOf) shapeOf {
	shape.Selector = s
	return shape
}

func TestASelectorIsEvaluatedOncePerKindOfNodes(t *testing.T) {
	t.Parallel()
	asked := 0
	shape := on(counting{letters("a"), &asked}, whole(1))
	c := placement.NewCluster(tightest{})
	for i := range 50 {
		set(t, c, aNode(nodeName(i), 4).traits(string(rune('a'+i%5))))
	}
	for range 3 {
		for i := range 10 {
			place := find(t, c, shape)
			run(t, c, fmt.Sprint("p", i), place.Node, place.Use)
		}
		if _, err := c.Explain(gangOf(shape, 100, 100)); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			c.Remove(fmt.Sprint("p", i))
		}
	}
	if asked != 5 {
		t.Errorf("it is asked %d times about 5 kinds of nodes", asked)
	}
}

func TestSelectorsOfOneKeyAreOne(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("n", 1))
	a := c.Request(on(letters("ab"), whole(1)))
	if b := c.Request(on(counting{letters("ab"), nil}, whole(1))); a != b {
		t.Error("the same shape with an equal selector is another request")
	}
	for _, shape := range []shapeOf{whole(1), on(letters("a"), whole(1)), on(letters(""), whole(1)), on(letters("ab"), whole(2))} {
		if c.Request(shape) == a {
			t.Errorf("%s is the same request", &shape)
		}
	}
}

func TestAStateAcceptsOnlyRequestsWhoseSelectorAdmitsIt(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("n", 1).traits("a"), aNode("tainted", 1).traits("aT"))
	for selector, want := range map[letters]string{"": "n", "a": "n", "b": "", "T": "n tainted", "aT": "n tainted"} {
		var got []string
		for _, name := range []string{"n", "tainted"} {
			if c.StateOf(name).Accepts(c.Request(on(selector, whole(1)))) {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q is accepted by %v, want %s", selector, got, want)
		}
	}
}

func TestAnInvalidResultIsARejection(t *testing.T) {
	t.Parallel()
	for _, answer := range []placement.Reason{placement.NoPodSlot, placement.InsufficientGPUs, 200} {
		c := clusterOf(t, aNode("n", 1))
		if got, _ := c.Fit("n", c.Request(on(odd{answer}, whole(1)))); got != placement.OtherLabels {
			t.Errorf("answer %d: the node %s", answer, got)
		}
	}
}

func TestAnExplanationCountsNodesThatTheSelectorRejects(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 4).traits("a"), aNode("b", 4).traits("b"), aNode("c", 4).traits("b"), aNode("t", 4).traits("aT"))
	run(t, c, "p", "a", use(100, 0))
	e, err := c.Explain(gangOf(on(letters("a"), whole(4)), 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	const want = "1 node has too few free GPUs, 2 do not match the node selector or affinity, 1 has a taint that is not tolerated; " +
		"it would start with one more free GPU, or with 3 GPUs for each Pod"
	if e.String() != want {
		t.Errorf("got\n%s\nwant\n%s", e, want)
	}
	if free := e.Remedies[0].Free; len(free) != 1 || free["a"] == nil {
		t.Errorf("to be freed are %v", free)
	}
}

// TestAPodOfUnknownShapeMovesAmongNodesOfItsTraits sets no MoveRules.Shape.
func TestAPodOfUnknownShapeMovesAmongNodesOfItsTraits(t *testing.T) {
	t.Parallel()
	for traits, want := range map[string]bool{"a": true, "b": false} {
		c := clusterOf(t, aNode("from", 2).traits("a"), aNode("to", 1).traits(traits))
		run(t, c, "p", "from", use(100, 0))
		_, found, err := c.Consolidate(gangOf(whole(2), 1, 1), placement.MoveRules{})
		if err != nil || found != want {
			t.Errorf("to a node of %q: moved %v, %v, want %v", traits, found, err, want)
		}
	}
}

func TestKindsWithoutNodesAreForgotten(t *testing.T) {
	t.Parallel()
	c := placement.NewCluster(tightest{})
	for i := range 20_000 {
		set(t, c, aNode("n", 1).traits(fmt.Sprint("a", i)))
	}
	if kinds := c.Kinds(); kinds > 2000 {
		t.Errorf("%d kinds are known of one node", kinds)
	}
	set(t, c, aNode("other", 1).traits("a19999"))
	if c.StateOf("n") != c.StateOf("other") {
		t.Error("equal nodes are in two States")
	}
}

func TestAPlaceOnOneNodeIsThatOfTheRanking(t *testing.T) {
	t.Parallel()
	places := 0
	for seed := range uint64(300) {
		u := newUpdates(t, seeded(seed), limits{nodes: 4, cards: 4, levels: 1})
		for range 30 {
			u.step()
		}
		r := u.cluster.Request(randomShape(u, 4))
		states := u.states()
		best, found := u.cluster.Find(r, u.cluster.Root())
		ranked := u.cluster.Rank(r, u.cluster.Root())
		for _, name := range u.want.names() {
			place, fits := u.cluster.On(name, r)
			at := slices.IndexFunc(ranked, func(one placement.Ranked) bool { return one.Node == name })
			if fits != (at >= 0) {
				t.Fatalf("seed %d: node %s fits is %v, its rank %d", seed, name, fits, at)
			}
			if !fits {
				continue
			}
			places++
			left := u.want.rest(name)
			if place.Node != name || place.Cost != ranked[at].Cost || !slices.ContainsFunc(uses(&left, &r.Shape), func(one placement.Use) bool {
				return slices.Equal(one.GPUs, place.GPUs)
			}) {
				t.Fatalf("seed %d: node %s has the place %+v, rank %+v", seed, name, place, ranked[at])
			}
			if found && best.Node == name && fmt.Sprint(best) != fmt.Sprint(place) {
				t.Fatalf("seed %d: found %+v, but on the node %+v", seed, best, place)
			}
		}
		u.mustBe(states, "asking")
	}
	if places < 100 {
		t.Errorf("only %d places: this proves little", places)
	}
	if _, fits := clusterOf(t).On("nowhere", clusterOf(t).Request(whole(1))); fits {
		t.Error("there is a place on a node that is not there")
	}
}
