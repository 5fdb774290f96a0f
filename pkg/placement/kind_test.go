// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// held is the percentages in use of a node's GPUs, by their index.
type held []int

// stateOf returns the State of a node with some percent of its GPUs in use.
func stateOf(t *testing.T, c *placement.Cluster, n *nodeBuilder, used held) *placement.State {
	t.Helper()
	c.RemoveNode(n.Name)
	set(t, c, n)
	for gpu, percent := range used {
		if percent > 0 {
			run(t, c, n.Name+string(rune('0'+gpu)), n.Name, placement.Use{GPUs: []int{gpu}, Percent: percent})
		}
	}
	// Slots count as well: fill up to the same number of Pods.
	for i := range n.Slots {
		if c.FitOf(n.Name, c.Request(shapeOf{})) != placement.Fits {
			break
		}
		run(t, c, n.Name+"-"+string(rune('a'+i)), n.Name, placement.Use{})
	}
	return c.StateOf(n.Name)
}

func TestNodesThatOfferTheSameAreInOneState(t *testing.T) {
	t.Parallel()
	node := func(name string) *nodeBuilder { return aNode(name, 4).size(64000, 512000, 4) }
	pairs := func(name string) *nodeBuilder { return node(name).groups(0, 0, 1, 1) }
	tests := map[string]struct {
		a, b   *nodeBuilder
		ua, ub held
	}{
		"two empty nodes":                      {node("a"), node("b"), nil, nil},
		"GPUs in use elsewhere":                {node("a"), node("b"), held{100, 0, 0, 0}, held{0, 0, 100, 0}},
		"shares in another order":              {node("a"), node("b"), held{10, 20, 0, 30}, held{30, 0, 20, 10}},
		"an NVLink group that is elsewhere":    {pairs("a"), node("b").groups(1, 0, 0, 1), held{50, 0, 0, 0}, held{0, 50, 0, 0}},
		"NVLink groups of other numbers":       {pairs("a"), node("b").groups(7, 7, 3, 3), nil, nil},
		"the other of two equal groups":        {pairs("a"), pairs("b"), held{10, 20, 0, 0}, held{0, 0, 20, 10}},
		"both groups in use":                   {pairs("a"), pairs("b"), held{10, 60, 20, 50}, held{50, 20, 60, 10}},
		"memories in another order":            {node("a").memories(40, 80, 40, 80), node("b").memories(80, 80, 40, 40), held{0, 0, 30, 60}, held{60, 0, 30, 0}},
		"a broken GPU and one in use":          {node("a").broken(2), node("b"), nil, held{0, 100, 0, 0}},
		"a broken GPU in use and a free one":   {node("a").broken(2), node("b").broken(1), held{0, 0, 100, 0}, nil},
		"any negative group is none":           {node("a").groups(-1, -1, -1, -1), node("b").groups(-2, -3, -1, -9), nil, nil},
		"one group and the rest without":       {node("a").groups(0, 0, -1, -1), node("b").groups(-1, 4, 4, -1), held{5, 0, 0, 100}, held{100, 0, 5, 0}},
		"other domains":                        {node("a").in("z", "r"), node("b").in("y"), nil, nil},
		"other NUMA nodes, which do not count": {node("a"), node("b").but(func(n *placement.Node) { n.GPUs[0].NUMA = 1 }), nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t)
			a, b := stateOf(t, c, test.a, test.ua), stateOf(t, c, test.b, test.ub)
			if a != b {
				t.Errorf("free %v and %v are two States", a.Free(), b.Free())
			}
		})
	}
}

func TestNodesThatOfferOtherThingsAreInOtherStates(t *testing.T) {
	t.Parallel()
	node := func(name string) *nodeBuilder { return aNode(name, 4).size(64000, 512000, 4) }
	pairs := func(name string) *nodeBuilder { return node(name).groups(0, 0, 1, 1) }
	tests := map[string]struct {
		a, b   *nodeBuilder
		ua, ub held
	}{
		"other percents":                      {node("a"), node("b"), held{10, 20, 0, 0}, held{10, 10, 0, 0}},
		"in one group or in two":              {pairs("a"), pairs("b"), held{10, 20, 0, 0}, held{10, 0, 20, 0}},
		"NVLink or none":                      {node("a").groups(0, 0, 0, 0), node("b"), nil, nil},
		"groups of other sizes":               {pairs("a"), node("b").groups(0, 1, 1, 1), nil, nil},
		"a group or single ones":              {pairs("a"), node("b").groups(0, 0, -1, -1), nil, nil},
		"the large or the small GPU in use":   {node("a").memories(40, 80, 40, 80), node("b").memories(40, 80, 40, 80), held{50, 0, 0, 0}, held{0, 50, 0, 0}},
		"other GPU memory":                    {node("a").memories(40, 40, 40, 40), node("b").memories(80, 80, 80, 80), nil, nil},
		"memories that are grouped otherwise": {pairs("a").memories(40, 40, 80, 80), pairs("b").memories(40, 80, 40, 80), nil, nil},
		"other models":                        {node("a"), node("b").but(func(n *placement.Node) { n.Model = "l40s" }), nil, nil},
		"other pools":                         {node("a"), node("b").but(func(n *placement.Node) { n.Pool = "p" }), nil, nil},
		"model and pool run together":         {node("a").but(func(n *placement.Node) { n.Model, n.Pool = "ab", "c" }), node("b").but(func(n *placement.Node) { n.Model, n.Pool = "a", "bc" }), nil, nil},
		"closed and open":                     {node("a"), node("b").but(func(n *placement.Node) { n.Closed = true }), nil, nil},
		"other CPU":                           {node("a"), node("b").size(1, 512000, 4), nil, nil},
		"other memory":                        {node("a"), node("b").size(64000, 1, 4), nil, nil},
		"other slots":                         {node("a"), node("b").size(64000, 512000, 5), nil, nil},
		"fewer GPUs":                          {node("a"), aNode("b", 3).size(64000, 512000, 4), nil, nil},
		"no GPU or one in use":                {aNode("a", 0).size(9, 9, 4), aNode("b", 1).size(9, 9, 4), nil, held{100}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t)
			a, b := stateOf(t, c, test.a, test.ua), stateOf(t, c, test.b, test.ub)
			if a == b {
				t.Errorf("they share a State with free %v", a.Free())
			}
		})
	}
}
