// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// ofMemory returns a node with some memory.
func ofMemory(name string, memory int64) *nodeBuilder {
	return aNode(name, 8).size(128000, memory, 100)
}

func TestMachinesOfOneMakeShareAState(t *testing.T) {
	t.Parallel()
	const tebi = 1 << 20
	tests := map[string]struct {
		a, b *nodeBuilder
		want bool
	}{
		"some MiB of memory":              {ofMemory("a", tebi-4000), ofMemory("b", tebi-4031), true},
		"some MiB of a small memory":      {ofMemory("a", 15801), ofMemory("b", 15806), true},
		"some GiB of memory":              {ofMemory("a", tebi-4000), ofMemory("b", tebi-14000), false},
		"some bytes of storage":           {ofMemory("a", tebi).others(0, 1<<40-70000), ofMemory("b", tebi).others(0, 1<<40-60001), true},
		"much storage":                    {ofMemory("a", tebi).others(0, 1<<40-7), ofMemory("b", tebi).others(0, 1<<39-7), false},
		"one of few adapters":             {ofMemory("a", tebi).others(8, 0), ofMemory("b", tebi).others(7, 0), false},
		"a round amount and a little":     {ofMemory("a", tebi), ofMemory("b", tebi+1), false},
		"nothing, in uneven memory":       {ofMemory("a", tebi-4001), ofMemory("b", tebi-4001), true},
		"the same memory, other adapters": {ofMemory("a", tebi-4001).others(8, 0), ofMemory("b", tebi-4000).others(4, 0), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, test.a, test.b)
			for _, node := range []string{"a", "b"} {
				run(t, c, node, node, use(100, 3, 5))
			}
			if got := c.StateOf("a") == c.StateOf("b"); got != test.want {
				t.Errorf("a State is shared: %t, want %t", got, test.want)
			}
		})
	}
}

func TestASharedStateTakesNoPodThatDoesNotFit(t *testing.T) {
	t.Parallel()
	// c, b and a have 0, 10 and 20 MiB more than the least; 40000 MiB are in use of each.
	const least = 1<<20 - 4096
	nodes := []*nodeBuilder{ofMemory("a", least+30), ofMemory("b", least+20), ofMemory("c", least+10)}
	tests := map[string]struct {
		free int64 // what is needed, beyond the least
		want []string
		room int
	}{
		"less than all have":       {-5000, []string{"a", "b", "c"}, 3},
		"just what all have":       {10, []string{"a", "b", "c"}, 3},
		"more than one has":        {11, []string{"a", "b"}, 2},
		"as much as two have":      {20, []string{"a", "b"}, 2},
		"more than two have":       {21, []string{"a"}, 1},
		"as much as one has":       {30, []string{"a"}, 1},
		"more than any has":        {31, nil, 0},
		"more than any could have": {5000, nil, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, nodes...)
			for _, n := range nodes {
				run(t, c, n.Name, n.Name, placement.Use{Memory: 40000})
			}
			shape := shapeOf{Memory: least - 40000 + test.free, GPUs: 1}
			r := c.Request(shape)
			var ranked []string
			for _, one := range c.Rank(r, c.Root()) {
				ranked = append(ranked, one.Node)
			}
			if fmt.Sprint(ranked) != fmt.Sprint(test.want) || c.Root().Room(r) != test.room {
				t.Errorf("there is room for %d, on %v, want %d on %v", c.Root().Room(r), ranked, test.room, test.want)
			}
			for _, n := range nodes {
				reason, err := c.Fit(n.Name, r)
				_, found := c.On(n.Name, r)
				fits := reason == placement.Fits
				if err != nil || fits != slices.Contains(test.want, n.Name) || found != fits {
					t.Errorf("node %s %s, a place is found: %t, error %v; want %v", n.Name, reason, found, err, test.want)
				}
			}
			gang := &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: max(1, test.room), Max: 4}}}
			plan, fits, err := c.Plan(gang)
			if err != nil || fits != (test.room > 0) || (fits && len(plan.Members) != test.room) {
				t.Errorf("the plan is %+v, error %v, want %d members", plan, err, test.room)
			}
		})
	}
}

func TestAnExplanationCountsNodesOfASharedStateOneByOne(t *testing.T) {
	t.Parallel()
	const least = 1<<20 - 4096
	c := clusterOf(t, ofMemory("a", least+30), ofMemory("b", least+20), ofMemory("c", least+10))
	run(t, c, "p", "a", placement.Use{Memory: 5})
	e, err := c.Explain(&placement.Gang{Roles: []placement.Role{{Shape: shapeOf{Memory: least + 30, GPUs: 1}, Min: 2, Max: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = "it would not fit even if nothing else ran; 2 nodes are too small in CPU or memory, 1 has too little free memory; " +
		"it would start with 1034064 MiB memory for each Pod"
	if e.String() != want {
		t.Errorf("got\n%s\nwant\n%s", e, want)
	}
}
