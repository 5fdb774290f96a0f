// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func explained(t *testing.T, c *Cluster, g *Gang) *Explanation {
	t.Helper()
	e, err := c.Explain(g)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// racks returns a cluster of leaves with nodes of 8 GPUs, the first of which are in use:
// used[leaf][node].
func racks(t *testing.T, used [][]int) *Cluster {
	t.Helper()
	return racksWith(t, used, nil)
}

// racksWith returns the same nodes with further resources.
func racksWith(t *testing.T, used [][]int, others Amounts) *Cluster {
	t.Helper()
	c := NewCluster(firstFit{})
	for leaf, nodes := range used {
		for i, gpus := range nodes {
			name := fmt.Sprintf("node-%d-%d", leaf, i)
			node := Node{Name: name, CPU: 64000, Memory: 1 << 20, Slots: 100, Model: "h100", Domains: []string{fmt.Sprintf("leaf-%d", leaf)}, Others: others}
			for range 8 {
				node.GPUs = append(node.GPUs, GPU{Memory: 80000, Group: 0, NUMA: 0})
			}
			if err := c.SetNode(node); err != nil {
				t.Fatal(err)
			}
			for gpu := range gpus {
				pod := Pod{Name: fmt.Sprintf("%s/%d", name, gpu), Node: name, Use: Use{CPU: 1000, Memory: 1000, GPUs: []int{gpu}, Percent: Card}}
				pod.Others = NewAmounts(map[string]int64{"rdma/hca": 1, "not/listed": 1})
				if err := c.Place(pod); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return c
}

func TestAnExplanationNamesTheSmallestRemedy(t *testing.T) {
	t.Parallel()
	eight := Shape{CPU: 8000, Memory: 1000, GPUs: 8}
	tests := map[string]struct {
		used [][]int
		gang Gang
		want string
	}{
		"two GPUs are short in a leaf": {
			[][]int{{2, 0}, {8, 1}}, Gang{Roles: []Role{{Shape: eight, Min: 2, Max: 2}}, Level: 1, Required: true},
			"3 nodes have too few free GPUs, 1 has room for part of it; it would start with 2 more free GPUs in leaf-0, or with 1 of its 2 Pods, or with 6 GPUs for each Pod",
		},
		"it fits in two leaves": {
			[][]int{{0, 8}, {0, 8}}, Gang{Roles: []Role{{Shape: eight, Min: 2, Max: 2}}, Level: 1, Required: true},
			"2 nodes have room for part of it, 2 have too few free GPUs; it would start with 8 more free GPUs in leaf-0, " +
				"or in 2 domains (leaf-0, leaf-1) if one were preferred, not required, or with 1 of its 2 Pods, or with 4 GPUs for each Pod",
		},
		"another model is free": {
			[][]int{{0}}, Gang{Roles: []Role{{Shape: Shape{GPUs: 8, Models: []string{"a100"}}, Min: 1, Max: 1}}},
			"no node has a100; models here: h100; it would start on h100 (1 node)",
		},
		"a model that is written in another way": {
			[][]int{{0}}, Gang{Roles: []Role{{Shape: Shape{GPUs: 8, Models: []string{"H100-sxm"}}, Min: 1, Max: 1}}},
			"no node has H100-sxm (did you mean h100?); models here: h100; it would start on h100 (1 node)",
		},
		"no node has so many": {
			[][]int{{0, 0}}, Gang{Roles: []Role{{Shape: Shape{GPUs: 16}, Min: 1, Max: 1}}},
			"it would not fit even if nothing else ran; 2 nodes have too few GPUs; it would start with 8 GPUs for each Pod",
		},
		"too much CPU": {
			[][]int{{0}}, Gang{Roles: []Role{{Shape: Shape{CPU: 80000, GPUs: 1}, Min: 1, Max: 1}}},
			"it would not fit even if nothing else ran; 1 node is too small in CPU or memory; it would start with 64 CPU for each Pod",
		},
		"too much GPU memory": {
			[][]int{{0}}, Gang{Roles: []Role{{Shape: Shape{GPUs: 1, GPUMemory: 90000}, Min: 1, Max: 1}}},
			"it would not fit even if nothing else ran; 1 node has GPUs with less memory; it would start on GPUs with 80000 MiB",
		},
		"another pool": {
			[][]int{{0}}, Gang{Roles: []Role{{Shape: Shape{GPUs: 1, Pool: "mine"}, Min: 1, Max: 1}}},
			"it would not fit even if nothing else ran; 1 node is in another node pool; it would start in other node pools (1 node)",
		},
		"several members find their GPUs on one node": {
			[][]int{{8}}, Gang{Roles: []Role{{Shape: Shape{GPUs: 1}, Min: 3, Max: 3}}},
			"1 node has too few free GPUs; it would start with 3 more free GPUs",
		},
		"a share": {
			[][]int{{8}}, Gang{Roles: []Role{{Shape: Shape{Share: 50}, Min: 3, Max: 3}}},
			"1 node has no GPU with that much free; it would start with 2 more free GPUs",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := explained(t, racks(t, test.used), &test.gang)
			if e == nil || e.String() != test.want {
				t.Errorf("got\n%v\nwant\n%s", e, test.want)
			}
		})
	}
}

// TestClosedNodesAreNamedIfOnlyTheyCouldTakeTheGang has two leaves, of which nodes are closed.
func TestClosedNodesAreNamedIfOnlyTheyCouldTakeTheGang(t *testing.T) {
	t.Parallel()
	eight := Shape{CPU: 8000, GPUs: 8}
	one, two := Gang{Roles: []Role{{Shape: eight, Min: 1, Max: 1}}}, Gang{Roles: []Role{{Shape: eight, Min: 2, Max: 2}}}
	tests := map[string]struct {
		used     [][]int
		closed   []string
		gang     Gang
		want     string
		isClosed bool
		verdict  Verdict
	}{
		"the only node": {
			[][]int{{0}}, []string{"node-0-0"}, one, "1 node takes no Pods; it would start once node-0-0 takes Pods again", true, FitsOpened,
		},
		"all nodes, which are full": {
			[][]int{{8}, {8}}, []string{"node-0-0", "node-1-0"}, one,
			"2 nodes take no Pods; it would start once nodes such as node-0-0, node-1-0 take Pods again", true, FitsOpened,
		},
		"one of the two that a gang needs": {
			[][]int{{0}, {0}}, []string{"node-1-0"}, two,
			"1 node takes no Pods, 1 has room for part of it; it would start once node-1-0 takes Pods again, or with 1 of its 2 Pods, or with 4 GPUs for each Pod", true, FitsOpened,
		},
		"another one is full": {
			[][]int{{8}, {0}}, []string{"node-1-0"}, one, "1 node has too few free GPUs, 1 takes no Pods; it would start with 8 more free GPUs", false, FitsEventually,
		},
		"closed ones are too small as well": {
			[][]int{{0}, {0}}, []string{"node-1-0"}, Gang{Roles: []Role{{Shape: Shape{GPUs: 9}, Min: 1, Max: 1}}},
			"it would not fit even if nothing else ran; 2 nodes have too few GPUs; it would start with 8 GPUs for each Pod", false, FitsNever,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := racks(t, test.used)
			for _, name := range test.closed {
				n := c.nodes[name].Node
				n.Closed = true
				if err := c.SetNode(n); err != nil {
					t.Fatal(err)
				}
			}
			e := explained(t, c, &test.gang)
			if e == nil || e.String() != test.want || e.Closed != test.isClosed {
				t.Errorf("got\n%v\nwant\n%s", e, test.want)
			}
			if outlook, err := c.WhatIf(&test.gang, nil); err != nil || outlook.Verdict != test.verdict {
				t.Errorf("it %v, %v, want: it %v", outlook, err, test.verdict)
			}
			for _, name := range test.closed {
				n := c.nodes[name].Node
				n.Closed = false
				if err := c.SetNode(n); err != nil {
					t.Fatal(err)
				}
			}
			if e, err := c.Explain(&test.gang); err != nil || e != nil && e.Closed {
				t.Errorf("with open nodes: %v, %v", e, err)
			}
		})
	}
}

func TestAnExplanationNamesTheResource(t *testing.T) {
	t.Parallel()
	adapters := func(count int64, storage int64) Shape {
		return Shape{GPUs: 1, Others: NewAmounts(map[string]int64{"rdma/hca": count, "ephemeral-storage": storage})}
	}
	others := NewAmounts(map[string]int64{"rdma/hca": 4, "ephemeral-storage": 100 << 30})
	tests := map[string]struct {
		used  [][]int
		shape Shape
		want  string
	}{
		"adapters are in use": {
			[][]int{{2, 3}}, adapters(4, 0),
			"2 nodes have too few free rdma/hca; it would start with 2 more free GPUs once the Pods on them have left, or with 2 rdma/hca for each Pod",
		},
		"there are never so many adapters": {
			[][]int{{0, 0}}, adapters(5, 0),
			"it would not fit even if nothing else ran; 2 nodes have too few rdma/hca; it would start with 4 rdma/hca for each Pod",
		},
		"no node has so much storage": {
			[][]int{{0}}, adapters(1, 300<<30),
			"it would not fit even if nothing else ran; 1 node is too small in ephemeral-storage; it would start with 101376 MiB of ephemeral-storage for each Pod",
		},
		"no node has the resource": {
			[][]int{{0}}, Shape{GPUs: 1, Others: Amounts{{"example.com/dongle", 1}}},
			"it would not fit even if nothing else ran; 1 node has too few example.com/dongle",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gang := &Gang{Roles: []Role{{Shape: test.shape, Min: 1, Max: 1}}}
			e := explained(t, racksWith(t, test.used, others), gang)
			if e == nil || e.String() != test.want {
				t.Errorf("got\n%v\nwant\n%s", e, test.want)
			}
		})
	}
}

func TestAFittingGangNeedsNoExplanation(t *testing.T) {
	t.Parallel()
	g := &Gang{Roles: []Role{{Shape: Shape{GPUs: 8}, Min: 1, Max: 1}}}
	if e := explained(t, racks(t, [][]int{{0}}), g); e != nil {
		t.Errorf("it is explained: %v", e)
	}
}

func TestAGangOfExtrasAloneAlwaysFits(t *testing.T) {
	t.Parallel()
	g := &Gang{Level: 3, Required: true, Roles: []Role{{Shape: Shape{GPUs: 8}, Max: 2}}}
	c := racks(t, [][]int{{0}})
	plan, fits, err := c.Plan(g)
	if err != nil || !fits || len(plan.Members) != 0 {
		t.Errorf("the plan is %+v, %v, %v", plan, fits, err)
	}
	if e := explained(t, c, g); e != nil {
		t.Errorf("it is explained: %v", e)
	}
}

// TestRemediesHelp applies each remedy of random gangs that do not fit.
func TestRemediesHelp(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	explanations, seen := 0, map[RemedyKind]int{}
	for range 400 {
		used := make([][]int, 1+random.IntN(3))
		for leaf := range used {
			for range 1 + random.IntN(3) {
				used[leaf] = append(used[leaf], random.IntN(9))
			}
		}
		others := NewAmounts(map[string]int64{"rdma/hca": int64(random.IntN(9))})
		c := racksWith(t, used, others)
		g := randomGang(random)
		before := fingerprint(c)
		e := explained(t, c, g)
		if after := fingerprint(c); after != before {
			t.Fatalf("explaining changed the cluster:\n%s\n%s", before, after)
		}
		if e == nil {
			continue
		}
		explanations++
		for i := range e.Remedies {
			remedy := &e.Remedies[i]
			seen[remedy.Kind]++
			if !applied(t, racksWith(t, used, others), g, remedy) {
				t.Fatalf("%s: the gang %+v still does not fit", remedy.Text, *g)
			}
		}
	}
	t.Logf("%d explanations, remedies: %v", explanations, seen)
	if explanations < 100 || len(seen) < 8 {
		t.Errorf("only %d explanations with remedies %v: this proves little", explanations, seen)
	}
}

func randomGang(random *rand.Rand) *Gang {
	g := &Gang{Level: random.IntN(2), Required: random.IntN(2) == 0}
	for range 1 + random.IntN(2) {
		members := 1 + random.IntN(4)
		role := Role{Min: members, Max: members, Shape: Shape{CPU: int64(random.IntN(40)) * 2000, Memory: int64(random.IntN(3)) << 18}}
		switch random.IntN(4) {
		case 0:
			role.Shape.Share = 10 + random.IntN(80)
		default:
			role.Shape.GPUs = 1 + random.IntN(9)
		}
		if random.IntN(6) == 0 {
			role.Shape.Others = NewAmounts(map[string]int64{"rdma/hca": 1 + int64(random.IntN(8))})
		}
		if random.IntN(5) == 0 {
			role.Shape.Models = []string{"a100"}
		}
		if random.IntN(6) == 0 {
			role.Shape.GPUMemory = 90000
		}
		if random.IntN(6) == 0 {
			role.Shape.Pool = "mine"
		}
		g.Roles = append(g.Roles, role)
	}
	return g
}

// applied reports whether a gang fits with a remedy.
func applied(t *testing.T, c *Cluster, g *Gang, remedy *Remedy) bool {
	t.Helper()
	for name, gpus := range remedy.Free {
		for pod, holds := range c.nodes[name].pods {
			if slices.Contains(gpus, holds.GPUs[0]) {
				c.Remove(pod)
			}
		}
	}
	if remedy.Gang != nil {
		g = remedy.Gang
	}
	_, fits, err := c.Plan(g)
	if err != nil {
		t.Fatal(err)
	}
	return fits
}

// fingerprint returns what is free everywhere.
func fingerprint(c *Cluster) string {
	var lines []string
	for _, n := range c.nodes {
		lines = append(lines, fmt.Sprintf("%s %d %d %d %v %v %v", n.Name, n.cpu, n.memory, n.slots, n.others, n.free, n.state.free))
	}
	slices.Sort(lines)
	return fmt.Sprint(lines)
}
