// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// readings are all values that a State reports.
type readings struct {
	CPU, CPUCapacity, Memory int64
	Model                    string
	Cards, Percent, Whole    int
	Free                     []int8
}

func read(s *placement.State) readings {
	return readings{
		CPU: s.CPU(), CPUCapacity: s.CPUCapacity(), Memory: s.Memory(), Model: s.Model(),
		Cards: s.Cards(), Percent: s.Percent(), Whole: s.Whole(), Free: s.Free(),
	}
}

func TestAStateReportsWhatIsFree(t *testing.T) {
	t.Parallel()
	node := func() *nodeBuilder { return aNode("n", 4).size(8000, 9024, 10) }
	tests := map[string]struct {
		node *nodeBuilder
		uses []placement.Use
		want readings
	}{
		"all of an empty node": {
			node(), nil,
			readings{8000, 8000, 9024, model, 4, 400, 4, []int8{100, 100, 100, 100}},
		},
		"the rest beside Pods, the fullest card first": {
			node(), []placement.Use{use(100, 3), use(30, 1), use(40, 1)},
			readings{5000, 8000, 6024, model, 4, 230, 2, []int8{0, 30, 100, 100}},
		},
		"nothing of a broken card": {
			node().broken(0, 2), []placement.Use{use(25, 1)},
			readings{7000, 8000, 8024, model, 4, 175, 1, []int8{0, 0, 75, 100}},
		},
		"nothing, not less, of a card that is promised twice": {
			node(), []placement.Use{use(100, 0, 1), use(70, 1)},
			readings{6000, 8000, 7024, model, 4, 200, 2, []int8{0, 0, 100, 100}},
		},
		"less than nothing of what is not a GPU": {
			node(), []placement.Use{{CPU: 9000, Memory: 9025}},
			readings{-1000, 8000, -1, model, 4, 400, 4, []int8{100, 100, 100, 100}},
		},
		"fuller groups first": {
			node().groups(0, 0, 1, 1), []placement.Use{use(60, 2), use(10, 0)},
			readings{6000, 8000, 7024, model, 4, 330, 2, []int8{40, 100, 90, 100}},
		},
		"larger groups before single cards": {
			node().groups(-1, 0, 0, 0), []placement.Use{use(60, 0)},
			readings{7000, 8000, 8024, model, 4, 340, 3, []int8{100, 100, 100, 40}},
		},
		"smaller memories first": {
			node().memories(8, 4, 8, 4), []placement.Use{use(60, 0), use(10, 3)},
			readings{6000, 8000, 7024, model, 4, 330, 2, []int8{90, 100, 40, 100}},
		},
		"a node without GPUs": {
			aNode("n", 0).size(1, 2, 3), nil,
			readings{1, 1, 26, model, 0, 0, 0, nil},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, test.node)
			for i, holds := range test.uses {
				run(t, c, string(rune('a'+i)), "n", holds)
			}
			got := read(c.StateOf("n"))
			got.Free = slices.Clip(got.Free)
			if diff := cmp.Diff(test.want, got); diff != "" && (len(got.Free) > 0 || len(test.want.Free) > 0) {
				t.Errorf("State (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAStateAcceptsModels(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("n", 1))
	for want, models := range map[bool][]string{true: {"x", model}, false: {"x", "h10", "h1000"}} {
		if got := c.StateOf("n").Accepts(c.Request(shapeOf{GPUs: 1, Models: models})); got != want {
			t.Errorf("models %v: accepted is %v", models, got)
		}
	}
	if !c.StateOf("n").Accepts(c.Request(whole(1))) {
		t.Error("any model is not accepted")
	}
}

func TestAStateCachesThePolicysNumber(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 1), aNode("b", 1))
	*c.StateOf("a").Cached() = placement.Value{Epoch: 3, Number: 4}
	if got := *c.StateOf("b").Cached(); got.Epoch != 3 || got.Number != 4 {
		t.Errorf("the equal node has %+v", got)
	}
}

// fillUp puts Pods on a node so that it goes through as many States.
func fillUp(t *testing.T, c *placement.Cluster, node string, pods int) {
	t.Helper()
	for i := range pods {
		run(t, c, node+"/"+string(rune(i)), node, placement.Use{CPU: 1})
	}
}

func TestStatesWithoutNodesAreForgotten(t *testing.T) {
	t.Parallel()
	const many, threshold = 5000, 100
	c := clusterOf(t, aNode("a", 2).size(many, 1, 2*many), aNode("b", 2).size(many, 1, 2*many).in("z"))
	first := c.StateOf("b")
	for range 20 {
		c.SweepAt(threshold) // a sweep raises it
		fillUp(t, c, "a", 300)
		for i := range 300 {
			c.Remove("a/" + string(rune(i)))
		}
	}
	if got := c.Known(); got > threshold+300 {
		t.Errorf("%d States are known for 2 nodes", got)
	}
	if c.StateOf("b") != first || c.StateOf("a") != first {
		t.Error("a State with nodes was forgotten: equal nodes are in two States")
	}
}

func TestSweepsInTheMiddleOfADecisionDoNoHarm(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 4), aNode("b", 4).groups(0, 0, 1, 1), aNode("c", 4).memories(4, 4, 8, 8))
	for percent := 1; percent < placement.Card; percent++ {
		c.SweepAt(0)
		p := find(t, c, share(percent))
		c.SweepAt(0)
		run(t, c, "p", p.Node, p.Use)
		if got := c.StateOf(p.Node).Percent(); got != 400-percent {
			t.Fatalf("%d percent are free, want %d", got, 400-percent)
		}
		c.Remove("p")
	}
}

func TestAKindTakesWhatItsNodesCouldIfTheyWereEmpty(t *testing.T) {
	t.Parallel()
	full := aNode("n", 4).size(8000, 9024, 10)
	c := clusterOf(t, full)
	run(t, c, "p", "n", use(100, 0, 1, 2, 3))
	state := c.StateOf("n")
	tests := map[string]struct {
		shape shapeOf
		want  bool
	}{
		"all GPUs":            {shapeOf{GPUs: 4, CPU: 8000}, true},
		"more GPUs":           {shapeOf{GPUs: 5}, false},
		"a share":             {shapeOf{Share: 10}, true},
		"more CPU":            {shapeOf{GPUs: 1, CPU: 8001}, false},
		"its model":           {shapeOf{GPUs: 1, Models: []string{model}}, true},
		"another model":       {shapeOf{GPUs: 1, Models: []string{"other"}}, false},
		"a node by its name":  {shapeOf{GPUs: 1, Nodes: []placement.NodeRule{{Names: []string{"n"}}}}, false},
		"a node of some pool": {shapeOf{GPUs: 1, Pool: "other"}, false},
	}
	for name, test := range tests {
		if got := state.TakesEmpty(c.Request(test.shape)); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
