// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"
	"testing"
)

// leaves adds nodes of 8 GPUs in leaves: {"a": 4} are a-0 to a-3.
func (s *suite) leaves(sizes map[string]int) {
	s.Helper()
	var all []machine
	for leaf, size := range sizes {
		all = append(all, machines(size, machine{name: leaf, gpus: 8, leaf: leaf})...)
	}
	s.addNodes(all...)
}

// leavesOf returns in which leaves a gang is, and on how many nodes of each.
func (s *suite) leavesOf(gang string) map[string]int {
	s.Helper()
	leaves := map[string]int{}
	for _, node := range slices.Compact(s.nodesOf(gang)) {
		leaf, _, _ := strings.Cut(node, "-")
		leaves[leaf]++
	}
	return leaves
}

// TestWhereAGangGoesAmongLeaves is "Slurm on Kubernetes" in the documents: one leaf if it
// suffices, otherwise the fewest leaves with the least fragmentation.
func TestWhereAGangGoesAmongLeaves(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		leaves map[string]int
		pods   int
		want   map[string]int
	}{
		"into the leaf that it fills":                            {map[string]int{"a": 4, "b": 3, "c": 2}, 3, map[string]int{"b": 3}},
		"into the tightest leaf that suffices":                   {map[string]int{"a": 5, "b": 4, "c": 2}, 3, map[string]int{"b": 3}},
		"into two leaves, of which it leaves nothing":            {map[string]int{"a": 4, "b": 3, "c": 2}, 6, map[string]int{"a": 4, "c": 2}},
		"into two leaves, and the rest into the tightest":        {map[string]int{"a": 4, "b": 3, "c": 1}, 5, map[string]int{"a": 4, "c": 1}},
		"into all leaves when it takes them":                     {map[string]int{"a": 2, "b": 2, "c": 1}, 5, map[string]int{"a": 2, "b": 2, "c": 1}},
		"into two leaves rather than three, though they are big": {map[string]int{"a": 3, "b": 3, "c": 1, "d": 1}, 5, map[string]int{"a": 3, "b": 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuite(t)
			s.leaves(test.leaves)
			s.createTasks(gang{name: "train", pods: test.pods, gpus: 8, level: "leaf"})
			s.waitForBound(test.pods, "train")
			got := s.leavesOf("train")
			if len(got) != len(test.want) {
				t.Errorf("is in the leaves %v, want %v", got, test.want)
			}
			for leaf, nodes := range test.want {
				if got[leaf] != nodes && !sameSize(test.leaves, leaf, got, nodes) {
					t.Errorf("is in the leaves %v, want %v", got, test.want)
				}
			}
		})
	}
}

// sameSize reports whether a leaf of the same size has this many nodes of the gang: leaves
// of equal size are equally good.
func sameSize(leaves map[string]int, leaf string, got map[string]int, nodes int) bool {
	for other, size := range leaves {
		if size == leaves[leaf] && got[other] == nodes {
			return true
		}
	}
	return false
}

func TestARequiredLeafIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.leaves(map[string]int{"a": 2, "b": 2})
	s.createTasks(gang{name: "blocker", gpus: 8, duration: forever})
	s.waitForBound(1, "blocker")
	s.createTasks(gang{name: "three", pods: 3, gpus: 8, level: "leaf", required: true})
	s.waitForRefusal("three", "in one leaf")
	s.createTasks(gang{name: "two", pods: 2, gpus: 8, level: "leaf", required: true})
	s.waitForBound(2, "two")
	s.waitForBound(0, "three")
	leaf := "a"
	if s.leavesOf("two")["a"] > 0 {
		leaf = "b"
	}
	more := machines(2, machine{name: leaf + "-more", gpus: 8, leaf: leaf})
	s.addNodes(more...)
	s.waitForBound(3, "three")
	if got := s.leavesOf("three"); got[leaf] != 3 {
		t.Errorf("is in the leaves %v, want 3 nodes of %s", got, leaf)
	}
}

func TestANewPodOfAGangGoesToItsLeaf(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.leaves(map[string]int{"a": 3, "b": 3})
	s.createTasks(gang{name: "train", pods: 2, gpus: 8, level: "leaf"})
	s.waitForBound(2, "train")
	before := s.leavesOf("train")
	lost := s.ledger.podsOf("train")[0]
	s.deletePod(lost.Name)
	s.eventually("a new Pod has a node", func() (bool, string) {
		pods := s.ledger.podsOf("train")
		return len(pods) == 2 && pods[0].UID != lost.UID && countPods(pods, isHolding) == 2, describe(pods)
	})
	for leaf, nodes := range s.leavesOf("train") {
		if before[leaf] == 0 || nodes != 2 {
			t.Errorf("was in the leaves %v, is in %v", before, s.leavesOf("train"))
		}
	}
}

func TestARelabelledNodeCountsForItsNewLeaf(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.leaves(map[string]int{"a": 2, "b": 1})
	s.createTasks(gang{name: "three", pods: 3, gpus: 8, level: "leaf", required: true, duration: "300ms"})
	s.waitForRefusal("three", "in one leaf")
	s.patchNode("b-0", `{"metadata": {"labels": {"falldio.com/leaf": %q}}}`, s.leaf("a"))
	s.waitForEnd(3, "three")
}
