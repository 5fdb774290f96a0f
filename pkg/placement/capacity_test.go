// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// capacityCluster has two leaves: "l1" with one node with 3 of 4 GPUs free and one with
// 2; "l2" with one node with 4 free GPUs, one of them broken, and a closed one.
func capacityCluster(t *testing.T) *placement.Cluster {
	t.Helper()
	cluster := placement.NewCluster(packing.New(packing.Default()))
	for _, node := range []struct {
		*nodeBuilder
		leaf string
		used []int
	}{
		{aNode("a", 4), "l1", []int{0}},
		{aNode("b", 4), "l1", []int{1, 2}},
		{aNode("c", 4).broken(3), "l2", nil},
		{aNode("d", 4), "l2", nil},
	} {
		described := node.nodeOf
		described.Domains = []string{node.leaf}
		described.Closed = node.Name == "d"
		if err := cluster.SetNode(described); err != nil {
			t.Fatal(err)
		}
		if len(node.used) == 0 {
			continue
		}
		use := placement.Use{GPUs: node.used, Percent: placement.Card}
		if err := cluster.Place(placement.Pod{Name: "on-" + node.Name, Node: node.Name, Use: use}); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		shape placement.Shape
		want  placement.Capacity
	}{
		{
			"single GPUs can use all that is free and whole", placement.Shape{GPUs: 1},
			placement.Capacity{Pods: 8, Largest: []placement.LargestDomain{{Pods: 8}, {Domain: "l1", Pods: 5}}},
		},
		{
			"Pods of two GPUs leave one on two nodes", placement.Shape{GPUs: 2},
			placement.Capacity{Pods: 3, Stranded: 200, Largest: []placement.LargestDomain{{Pods: 3}, {Domain: "l1", Pods: 2}}},
		},
		{
			"Pods of three fit once in each leaf, of which the first is named", placement.Shape{GPUs: 3},
			placement.Capacity{Pods: 2, Stranded: 200, Largest: []placement.LargestDomain{{Pods: 2}, {Domain: "l1", Pods: 1}}},
		},
		{
			"all is stranded for what fits nowhere", placement.Shape{GPUs: 4},
			placement.Capacity{Stranded: 800, Largest: []placement.LargestDomain{{}, {}}},
		},
		{
			"nothing is stranded for another model: none of it is meant for it", placement.Shape{GPUs: 4, Models: []string{"a100"}},
			placement.Capacity{Largest: []placement.LargestDomain{{}, {}}},
		},
		{
			"half a GPU fits twice on each", placement.Shape{Share: 50},
			placement.Capacity{Pods: 16, Largest: []placement.LargestDomain{{Pods: 16}, {Domain: "l1", Pods: 10}}},
		},
	}
	cluster := capacityCluster(t)
	for _, test := range tests { // one after the other: a cluster is not safe for concurrent use
		if diff := cmp.Diff(test.want, cluster.Capacity(test.shape, 1)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestCardStatesAreByIndex(t *testing.T) {
	t.Parallel()
	cluster := capacityCluster(t)
	if err := cluster.Place(placement.Pod{Name: "share", Node: "b", Use: placement.Use{GPUs: []int{3}, Percent: 30}}); err != nil {
		t.Fatal(err)
	}
	want := []placement.CardState{{Free: 100}, {Free: 0}, {Free: 0}, {Free: 70}}
	if diff := cmp.Diff(want, cluster.CardStates("b")); diff != "" {
		t.Errorf("node b (-want +got):\n%s", diff)
	}
	if got := cluster.CardStates("c"); !got[3].Broken || got[0].Broken {
		t.Errorf("node c: %+v, want the last one broken", got)
	}
	first := []placement.CardState{{Free: 1}}
	if diff := cmp.Diff(append(first, want...), cluster.AppendCardStates(first, "b")); diff != "" {
		t.Errorf("appended (-want +got):\n%s", diff)
	}
	if got := cluster.CardStates("nowhere"); got != nil {
		t.Errorf("a node that is not there: %+v", got)
	}
}
