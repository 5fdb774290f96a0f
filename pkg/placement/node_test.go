// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestNodesAreValidated(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*placement.Node)
		want   string // empty if it is valid
	}{
		"an ordinary node":            {func(*placement.Node) {}, ""},
		"a node without anything":     {func(n *placement.Node) { *n = nodeOf{Name: "n"} }, ""},
		"a node with the most GPUs":   {func(n *placement.Node) { n.GPUs = make([]placement.GPU, placement.MaxCards) }, ""},
		"a node without a name":       {func(n *placement.Node) { n.Name = "" }, "a node needs a name"},
		"a node with negative CPU":    {func(n *placement.Node) { n.CPU = -1 }, "node n: CPU, memory and slots must not be negative"},
		"a node with negative memory": {func(n *placement.Node) { n.Memory = -1 }, "must not be negative"},
		"a node with negative slots":  {func(n *placement.Node) { n.Slots = -1 }, "must not be negative"},
		"a node with resources twice": {
			func(n *placement.Node) { n.Others = append(amounts(1, 0), amounts(1, 0)...) },
			"node n: rdma/hca: resources must be sorted by name, each once",
		},
		"a node with less than nothing": {
			func(n *placement.Node) { n.Others = placement.Amounts{{Resource: "rdma/hca", Value: -1}} },
			"node n: rdma/hca: must be 1 to",
		},
		"a node with too many GPUs": {func(n *placement.Node) { n.GPUs = make([]placement.GPU, placement.MaxCards+1) }, "node n: has 1025 GPUs, at most 1024 are supported"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t)
			err := c.SetNode(aNode("n", 2).but(test.change).nodeOf)
			if (err == nil) != (test.want == "") {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %q, want %q in it", err, test.want)
			}
		})
	}
}

func TestABadDescriptionLeavesTheNodeAsItWas(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("n", 2).in("z"))
	run(t, c, "p", "n", use(100, 1))
	before := c.StateOf("n")
	if err := c.SetNode(nodeOf{Name: "n", CPU: -1}); err == nil {
		t.Fatal("it was accepted")
	}
	if c.StateOf("n") != before || domainOf(t, c, "z").Room(c.Request(whole(1))) != 1 {
		t.Error("the node has changed")
	}
}

func TestANodeKeepsItsOwnCopyOfItsDescription(t *testing.T) {
	t.Parallel()
	n := aNode("n", 2).in("z", "r")
	c := clusterOf(t, n, aNode("other", 2).in("z", "r"))
	n.GPUs[0].Broken, n.Domains[0] = true, "y"
	run(t, c, "p", "n", use(100, 1)) // updates the State of the node
	if got := c.StateOf("n").Whole(); got != 1 {
		t.Errorf("%d GPUs are whole, want 1", got)
	}
	c.RemoveNode("n")
	if got := domainOf(t, c, "z/r").Room(c.Request(whole(1))); got != 2 {
		t.Errorf("room for %d in the domain that the node has left, want that of the other one", got)
	}
}
