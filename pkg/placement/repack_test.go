// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// example is the one of the documents: node1 runs A (4 GPUs) and B (3) and has 8.
func example(gpusOfNode2 int) *world {
	w := newWorld()
	w.node("node1", 8, 100)
	w.node("node2", gpusOfNode2, 100)
	w.run("A", "node1", gpusEach(4), 0, 1, 2, 3)
	w.run("B", "node1", gpusEach(3), 4, 5, 6)
	return w
}

func TestTheExampleNeedsNoMoveWhereASlotIsFree(t *testing.T) {
	w := example(8)
	result, found, err := w.cluster(t).Consolidate(loneGang(gpusEach(4)), w.rules())
	if err != nil || !found {
		t.Fatalf("found %v, error %v", found, err)
	}
	if len(result.Moves) > 0 || result.Cost != 0 || result.Plan.Members[0].Node != "node2" {
		t.Errorf("got %+v", result)
	}
}

func TestTheExampleMovesBWhereNoSlotIsFree(t *testing.T) {
	w := example(3) // enough for B, not for C
	result, found, err := w.cluster(t).Consolidate(loneGang(gpusEach(4)), w.rules())
	if err != nil || !found {
		t.Fatalf("found %v, error %v", found, err)
	}
	if len(result.Moves) != 1 || result.Moves[0].Pod != "B" || result.Moves[0].To.Node != "node2" {
		t.Errorf("moves %+v", result.Moves)
	}
	if result.Plan.Members[0].Node != "node1" {
		t.Errorf("C goes to %s", result.Plan.Members[0].Node)
	}
}

func TestPackingTheExampleReachesAAndCOnNode1AndBOnNode2(t *testing.T) {
	w := example(8)
	w.run("C", "node2", gpusEach(4), 0, 1, 2, 3)
	c := w.cluster(t)
	packing, err := c.Pack(placement.PackingOptions{MoveRules: w.rules(), Threshold: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	checkPacking(t, w, packing)
	if err := c.Carry(packing.Moves); err != nil {
		t.Fatal(err)
	}
	at := map[string]string{"A": "node1"}
	for _, move := range packing.Moves {
		at[move.Pod] = move.To.Node
	}
	if fmt.Sprint(at) != "map[A:node1 B:node2 C:node1]" {
		t.Errorf("ends with %v: %+v", at, packing)
	}
}

func TestPackingEmptiesANodeWhoseFewPodsFitElsewhere(t *testing.T) {
	w := newWorld()
	w.node("a", 4, 100, "zone", "leaf1")
	w.node("b", 4, 100, "zone", "leaf1")
	w.node("c", 4, 100, "zone", "leaf2")
	w.run("large", "a", gpusEach(3), 0, 1, 2)
	w.run("small", "b", gpusEach(1), 0)
	w.run("share", "c", placement.Shape{Share: 30}, 0)
	packing, err := w.cluster(t).Pack(placement.PackingOptions{MoveRules: w.rules(), Threshold: 0.3})
	if err != nil {
		t.Fatal(err)
	}
	checkPacking(t, w, packing)
	if len(packing.Moves) != 1 || !slices.Equal(packing.Nodes, []string{"c"}) || !slices.Equal(packing.Domains, []string{"zone/leaf2"}) {
		t.Errorf("got %+v", packing)
	}
}

func TestPackingEmptiesACardOfTwoThatShares(t *testing.T) {
	w := newWorld()
	w.node("a", 2, 100)
	w.run("x", "a", placement.Shape{Share: 40}, 0)
	w.run("y", "a", placement.Shape{Share: 50}, 1)
	packing, err := w.cluster(t).Pack(placement.PackingOptions{MoveRules: w.rules(), Threshold: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	checkPacking(t, w, packing)
	if packing.GPUs != 1 || len(packing.Moves) != 1 {
		t.Errorf("got %+v", packing)
	}
}

func TestPackingLeavesWhatIsUsedMoreOrCostsMoreThanItGains(t *testing.T) {
	w := newWorld()
	w.node("a", 4, 100)
	w.node("b", 4, 100)
	w.run("large", "a", gpusEach(3), 0, 1, 2)
	w.run("small", "b", gpusEach(1), 0)
	for name, options := range map[string]placement.PackingOptions{
		"used more":        {MoveRules: w.rules(), Threshold: 0.2},
		"gains too little": {MoveRules: w.rules(), Threshold: 0.5, MinGain: 100},
		"too dear":         {MoveRules: placement.MoveRules{PerMove: 2, MaxCost: 1}, Threshold: 0.5},
	} {
		packing, err := w.cluster(t).Pack(options)
		if err != nil {
			t.Fatal(err)
		}
		if len(packing.Moves) > 0 {
			t.Errorf("%s: moves %+v", name, packing.Moves)
		}
	}
}

// checkPacking applies a packing plan, step by step, and counts what it frees.
func checkPacking(t *testing.T, w *world, packing *placement.Packing) {
	t.Helper()
	before, after := w.freed(carryOut(t, w, nil)), w.freed(carryOut(t, w, packing.Moves))
	if got := after.gpus - before.gpus; got != packing.GPUs || got < 0 {
		t.Errorf("%d whole GPUs are given back, said are %d", got, packing.GPUs)
	}
	var nodes []string
	for _, name := range after.nodes {
		if !slices.Contains(before.nodes, name) {
			nodes = append(nodes, name)
		}
	}
	if !slices.Equal(nodes, packing.Nodes) || len(after.nodes) < len(before.nodes) {
		t.Errorf("nodes %v are given back, said are %v", nodes, packing.Nodes)
	}
	cost := 0.0
	for _, move := range packing.Moves {
		cost += move.Cost
	}
	if diff := cost - packing.Cost; diff > 1e-9 || diff < -1e-9 {
		t.Errorf("cost %g, the moves cost %g", packing.Cost, cost)
	}
}

type freed struct {
	gpus  int
	nodes []string
}

func (w *world) freed(ledgers map[string]*ledger) freed {
	var f freed
	for i := range w.nodes {
		whole := 0
		for _, free := range ledgers[w.nodes[i].Name].cards {
			if free == placement.Card {
				whole++
			}
		}
		f.gpus += whole
		if whole == len(w.nodes[i].GPUs) && whole > 0 {
			f.nodes = append(f.nodes, w.nodes[i].Name)
		}
	}
	return f
}

func TestPackingIsNeverWorseThanBefore(t *testing.T) {
	var gpus, nodes, moves int
	for seed := range uint64(6000) {
		w, _ := randomWorld(seed)
		options := placement.PackingOptions{MoveRules: w.rules(), Threshold: 0.8}
		options.MaxMoves, options.MaxCost = 4, 20
		packing, err := w.cluster(t).Pack(options)
		if err != nil {
			t.Fatal(err)
		}
		checkPacking(t, w, packing)
		if len(packing.Moves) > 4 || packing.Cost > 20 {
			t.Errorf("seed %d: over budget: %+v", seed, packing)
		}
		gpus, nodes, moves = gpus+packing.GPUs, nodes+len(packing.Nodes), moves+len(packing.Moves)
		if t.Failed() {
			t.Fatalf("seed %d: %+v", seed, packing)
		}
	}
	t.Logf("%d GPUs and %d nodes given back with %d moves", gpus, nodes, moves)
}

func BenchmarkPack(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c, rules := fragmented(b, nodes)
			for b.Loop() {
				packing, err := c.Pack(placement.PackingOptions{MoveRules: rules, Threshold: 0.5})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(packing.GPUs), "GPUs")
				b.ReportMetric(float64(len(packing.Nodes)), "nodes-back")
				b.ReportMetric(float64(len(packing.Moves)), "moves")
			}
		})
	}
}
