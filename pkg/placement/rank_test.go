// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestNodesAreRankedAsFindChooses(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 4), aNode("b", 4), aNode("full", 4), aNode("c", 4).in("z"))
	run(t, c, "p", "full", use(100, 0, 1, 2, 3))
	r := c.Request(whole(2))
	ranked := c.Rank(r, c.Root())
	place, found := c.Find(r, c.Root())
	if !found || len(ranked) != 3 || ranked[0].Node != place.Node {
		t.Fatalf("ranked %v, but %s is chosen", ranked, place.Node)
	}
	inOrder := slices.IsSortedFunc(ranked, func(a, b placement.Ranked) int {
		if a.Cost < b.Cost || (a.Cost == b.Cost && a.Node < b.Node) {
			return -1
		}
		return 1
	})
	if !inOrder {
		t.Errorf("not in order: %v", ranked)
	}
	if inZone := c.Rank(r, domainOf(t, c, "z")); len(inZone) != 1 || inZone[0].Node != "c" {
		t.Errorf("in the domain are %v", inZone)
	}
}

func TestFitReturnsWhyANodeDoesNotFit(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 4), aNode("b", 2))
	run(t, c, "p", "a", use(100, 0))
	r := c.Request(whole(4))
	for node, want := range map[string]placement.Reason{"a": placement.InsufficientGPUs, "b": placement.TooFewGPUs} {
		if got, err := c.Fit(node, r); err != nil || got != want {
			t.Errorf("node %s %s, %v, want: it %s", node, got, err, want)
		}
	}
	if _, err := c.Fit("nowhere", r); err == nil {
		t.Error("a node that is not there has an answer")
	}
	if !c.Ever(r) || c.Ever(c.Request(whole(5))) {
		t.Error("4 GPUs could be had, 5 never")
	}
}
