// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func onA100(n placement.Node) placement.Node {
	n.Model = "a100"
	return n
}

func asking(shape placement.Shape, models ...string) placement.Shape {
	shape.Models = models
	return shape
}

// Nodes that the same requests depend on are one group, whatever else distinguishes them.
func TestNodesThatTheSameRequestsDependOnAreOneGroup(t *testing.T) {
	t.Parallel()
	shapes := []placement.Shape{whole(1, 1), asking(whole(1, 1), "a100")}
	p, c := demanding(t, Default(), true, shapes,
		onA100(node("a-1", 64, 2)), onA100(node("a-2", 96, 2)), node("b-1", 64, 2), node("b-2", 16, 2))
	if len(p.learned.groups) != 1 {
		t.Fatalf("there are %d groups, want 1", len(p.learned.groups))
	}
	// Half of the demand depends on half of the GPUs, a quarter of it on these alone.
	g := &p.learned.groups[0]
	if !near(g.dependent, 0.25, 1e-9) || g.free() != 4 {
		t.Errorf("%v of the demand depends on it, want 0.25; %v are free, want 4", g.dependent, g.free())
	}
	run(t, c, "a-2", 1, 50, 1)
	if g.free() != 3.5 {
		t.Errorf("%v are free, want 3.5", g.free())
	}
	c.Root().States(func(s *placement.State, _ int) {
		if _, depends := p.learned.groupOf[s.Kind()]; depends != (s.Model() == "a100") {
			t.Errorf("others depend on a node with %s: %v", s.Model(), depends)
		}
	})
}

func TestNobodyDependsOnNodesThatAreAllSuitable(t *testing.T) {
	t.Parallel()
	shapes := []placement.Shape{whole(1, 1), share(1, 50), {CPU: 60000}}
	p, _ := demanding(t, Default(), true, shapes, node("a", 64, 2), node("b", 16, 2), onA100(node("c", 16, 4)))
	if len(p.learned.groups) != 0 || len(p.learned.groupOf) != 0 {
		t.Errorf("there are %d groups", len(p.learned.groups))
	}
}

func TestRequestsThatNoNodeTakesDependOnNothing(t *testing.T) {
	t.Parallel()
	p := New(Default())
	c := clusterOf(t, p, node("a", 64, 2), node("b", 16, 2))
	mix := []Weighted{{Request: c.Request(whole(1, 8)), Weight: 1}, {Request: c.Request(asking(whole(1, 1), "none")), Weight: 1}}
	if groups, _ := groupsOf(mix, stockOf(c).kinds); len(groups) != 0 {
		t.Errorf("there are %d groups", len(groups))
	}
}

// A node that is hidden, closed or gone offers nothing to a group.
func TestAGroupFollowsItsNodes(t *testing.T) {
	t.Parallel()
	shapes := []placement.Shape{whole(1, 1), asking(whole(1, 1), "a100")}
	p, c := demanding(t, Default(), true, shapes, onA100(node("a-1", 64, 2)), onA100(node("a-2", 64, 2)), node("b", 64, 2))
	g := &p.learned.groups[0]
	closed := onA100(node("a-1", 64, 2))
	closed.Closed = true
	if err := c.SetNode(closed); err != nil {
		t.Fatal(err)
	}
	if g.free() != 2 {
		t.Errorf("with a closed node %v are free, want 2", g.free())
	}
	c.RemoveNode("a-2")
	if g.free() != 0 {
		t.Errorf("without nodes %v are free", g.free())
	}
}
