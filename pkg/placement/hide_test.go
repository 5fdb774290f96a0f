// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func excepting(g *placement.Gang, nodes ...string) *placement.Gang {
	g.Except = nodes
	return g
}

func TestNoMemberGoesToAnExceptedNode(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 2), aNode("b", 2))
	for _, test := range []struct {
		except []string
		want   string
	}{
		{nil, "a:0,1"}, {[]string{"a"}, "b:0,1"}, {[]string{"a", "nowhere", "a"}, "b:0,1"}, {[]string{"b", "a"}, "nowhere"}, {nil, "a:0,1"},
	} {
		if got := places(t, c, excepting(gangOf(whole(2), 1, 1), test.except...)); got != test.want {
			t.Errorf("but for %v it goes to %s, want %s", test.except, got, test.want)
		}
	}
}

// TestAnExplanationCountsExceptedNodes that could be used if they were not excepted.
func TestAnExplanationCountsExceptedNodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		gpus   int
		except []string
		want   string
	}{
		{4, []string{"a"}, "1 node has too few free GPUs, 1 is reserved for others or has refused it, 1 has too few GPUs; " +
			"it would start with one more free GPU, or with 3 GPUs for each Pod"},
		{4, []string{"a", "c", "b"}, "2 nodes are reserved for others or have refused it, 1 has too few GPUs"},
		{5, []string{"a"}, "it would not fit even if nothing else ran; 3 nodes have too few GPUs; it would start with 3 GPUs for each Pod"},
	} {
		c := clusterOf(t, aNode("a", 4), aNode("b", 2), aNode("c", 4))
		run(t, c, "p", "c", use(100, 0))
		e, err := c.Explain(excepting(gangOf(whole(test.gpus), 1, 1), test.except...))
		if err != nil || e.String() != test.want {
			t.Errorf("got\n%s\nwant\n%s, %v", e, test.want, err)
		}
	}
}

// TestAConsolidationPutsNoMemberOnAnExceptedNode moves Pods there instead.
func TestAConsolidationPutsNoMemberOnAnExceptedNode(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(2000) {
		w, gang := randomWorld(seed)
		gang.Except = []string{w.nodes[seed%uint64(len(w.nodes))].Name}
		c := w.cluster(t)
		result, ok, err := c.Consolidate(gang, w.rules())
		if err != nil {
			t.Fatal(err)
		}
		if !ok || len(result.Moves) == 0 {
			continue
		}
		found++
		if slices.ContainsFunc(result.Plan.Members, func(m placement.Member) bool { return m.Node == gang.Except[0] }) {
			t.Errorf("seed %d: %+v is on %v", seed, result.Plan.Members, gang.Except)
		}
	}
	if found < 20 {
		t.Errorf("only %d consolidations: this proves little", found)
	}
}
