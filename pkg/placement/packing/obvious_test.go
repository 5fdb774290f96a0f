// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// learnt returns a cluster with the default policy, which has seen a mix: each shape as
// often as its key says.
func learnt(t *testing.T, mix map[int]placement.Shape, nodes ...placement.Node) *placement.Cluster {
	t.Helper()
	p := New(Default())
	c := clusterOf(t, p, nodes...)
	for range 10 {
		for often := range 100 { // in a fixed order
			if shape, found := mix[often]; found {
				for range often {
					p.Learn(c, c.Request(shape))
				}
			}
		}
	}
	return c
}

func alike(count, cores, gpus int) []placement.Node {
	var nodes []placement.Node
	for i := range count {
		nodes = append(nodes, node(fmt.Sprintf("n%d", i), cores, gpus))
	}
	return nodes
}

// h100s returns nodes with 8 GPUs and 192 cores each; most requests are for single GPUs.
func h100s(t *testing.T, count int) *placement.Cluster {
	t.Helper()
	return learnt(t, map[int]placement.Shape{50: whole(12, 1), 20: whole(24, 2), 15: whole(48, 4), 10: whole(96, 8), 5: share(6, 50)}, alike(count, 192, 8)...)
}

// holding is a node with some percent of its first GPUs in use, one Pod on each.
type holding struct {
	node int
	used []int
}

func (h *holding) run(t *testing.T, c *placement.Cluster, cores int) {
	t.Helper()
	for gpu, percent := range h.used {
		if percent > 0 {
			run(t, c, fmt.Sprintf("n%d", h.node), cores, percent, gpu)
		}
	}
}

func full(gpus int) []int { return slices.Repeat([]int{placement.Card}, gpus) }

func TestWhereEachPodGoesOnNodesOfEightGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		used  []holding
		shape placement.Shape
		want  []string
	}{
		"a single GPU of a broken node, not of an untouched one": {
			[]holding{{2, full(1)}}, whole(12, 1), []string{"n2"}},
		"the last GPU of a node": {
			[]holding{{1, full(3)}, {2, full(7)}}, whole(12, 1), []string{"n2"}},
		"eight GPUs of an untouched node": {
			[]holding{{0, full(1)}, {1, full(1)}, {2, full(1)}}, whole(96, 8), []string{"n3"}},
		"two GPUs of a broken node": {
			[]holding{{2, full(3)}}, whole(24, 2), []string{"n2"}},
		"the last two of a node": {
			[]holding{{1, full(4)}, {2, full(6)}}, whole(24, 2), []string{"n2"}},
		"the last four of a node": {
			[]holding{{1, full(1)}, {2, full(4)}}, whole(48, 4), []string{"n2"}},
		"half a GPU on a card that is half used": {
			[]holding{{1, full(7)}, {2, []int{100, 50}}}, share(6, 50), []string{"n2"}},
		"half a GPU on the last card of a node": {
			[]holding{{1, full(7)}, {2, full(3)}}, share(6, 50), []string{"n1"}},
		"no GPU on a node whose GPUs are in use": {
			[]holding{{2, full(8)}}, placement.Shape{CPU: 8000}, []string{"n2"}},
		"no GPU on no untouched node": {
			[]holding{{1, full(7)}, {2, full(8)}}, placement.Shape{CPU: 8000}, []string{"n1", "n2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := h100s(t, 4)
			for _, h := range test.used {
				h.run(t, c, 12)
			}
			place, found := c.Find(c.Request(test.shape), c.Root())
			if !found || !slices.Contains(test.want, place.Node) {
				t.Errorf("goes to %q, want one of %v", place.Node, test.want)
			}
		})
	}
}

// touched counts the nodes with GPUs in use.
func touched(c *placement.Cluster) int {
	count := 0
	c.Root().States(func(s *placement.State, nodes int) {
		if s.Whole() < s.Cards() {
			count += nodes
		}
	})
	return count
}

// fill places a shape until it fits nowhere, and returns how many nodes were in use after
// each placement.
func fill(t *testing.T, c *placement.Cluster, shape placement.Shape) []int {
	t.Helper()
	var counts []int
	for {
		place, found := c.Find(c.Request(shape), c.Root())
		if !found {
			return counts
		}
		name := fmt.Sprintf("%s %d", shape.String(), len(counts))
		if err := c.Place(placement.Pod{Name: name, Node: place.Node, Use: place.Use}); err != nil {
			t.Fatal(err)
		}
		counts = append(counts, touched(c))
	}
}

func TestNodesAreFilledOneAfterTheOther(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cluster func(t *testing.T) *placement.Cluster
		shape   placement.Shape
		each    int // how many Pods of the shape fill a node
		nodes   int
	}{
		"single GPUs":  {func(t *testing.T) *placement.Cluster { t.Helper(); return h100s(t, 5) }, whole(12, 1), 8, 5},
		"pairs":        {func(t *testing.T) *placement.Cluster { t.Helper(); return h100s(t, 5) }, whole(24, 2), 4, 5},
		"whole nodes":  {func(t *testing.T) *placement.Cluster { t.Helper(); return h100s(t, 5) }, whole(96, 8), 1, 5},
		"halves":       {func(t *testing.T) *placement.Cluster { t.Helper(); return h100s(t, 3) }, share(6, 50), 16, 3},
		"four of four": {fours, whole(16, 4), 1, 6},
		"one of four":  {fours, whole(4, 1), 4, 6},
		"two of four":  {fours, whole(8, 2), 2, 6},
		"one GPU of a single node": {
			func(t *testing.T) *placement.Cluster { t.Helper(); return h100s(t, 1) }, whole(12, 1), 8, 1},
		"shares of a single node": {
			func(t *testing.T) *placement.Cluster { t.Helper(); return h100s(t, 1) }, share(1, 25), 32, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := fill(t, test.cluster(t), test.shape)
			if len(got) != test.each*test.nodes {
				t.Errorf("%d fit, want %d", len(got), test.each*test.nodes)
			}
			for i, nodes := range got {
				if want := i/test.each + 1; nodes != want {
					t.Fatalf("the first %d are on %d nodes, want %d", i+1, nodes, want)
				}
			}
		})
	}
}

// fours returns nodes with 4 GPUs and more CPU than any request needs.
func fours(t *testing.T) *placement.Cluster {
	t.Helper()
	return learnt(t, map[int]placement.Shape{40: whole(4, 1), 30: whole(16, 4), 20: share(1, 50), 10: whole(8, 2)}, alike(6, 256, 4)...)
}

func TestWhereEachPodGoesOnNodesOfFourGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		used  []holding
		shape placement.Shape
		want  []string
	}{
		"a single GPU of a broken node":  {[]holding{{3, full(1)}}, whole(4, 1), []string{"n3"}},
		"four GPUs of an untouched node": {[]holding{{0, full(1)}, {1, full(1)}}, whole(16, 4), []string{"n2"}},
		"two GPUs where two are left":    {[]holding{{2, full(1)}, {3, full(2)}}, whole(8, 2), []string{"n3"}},
		"half a GPU beside half a GPU":   {[]holding{{2, full(3)}, {3, []int{50}}}, share(1, 50), []string{"n3"}},
		"a single GPU where one is left": {[]holding{{1, []int{50}}, {3, full(3)}}, whole(4, 1), []string{"n3"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fours(t)
			for _, h := range test.used {
				h.run(t, c, 4)
			}
			if place, found := c.Find(c.Request(test.shape), c.Root()); !found || !slices.Contains(test.want, place.Node) {
				t.Errorf("goes to %q, want one of %v", place.Node, test.want)
			}
		})
	}
}

func TestASingleNodeIsFilledToTheLastShare(t *testing.T) {
	t.Parallel()
	c := h100s(t, 1)
	for i, shape := range []placement.Shape{share(6, 25), share(6, 25), whole(24, 2), share(6, 50), whole(12, 1), whole(48, 4)} {
		place, found := c.Find(c.Request(shape), c.Root())
		if !found {
			t.Fatalf("Pod %d, %s, fits no more", i, &shape)
		}
		if err := c.Place(placement.Pod{Name: fmt.Sprint(i), Node: place.Node, Use: place.Use}); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Root().Percent(); got != 0 {
		t.Errorf("%d percent are left", got)
	}
}
