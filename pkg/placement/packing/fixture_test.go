// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"math"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// clusterOf returns a cluster of nodes with a policy.
func clusterOf(t *testing.T, policy placement.Policy, nodes ...placement.Node) *placement.Cluster {
	t.Helper()
	c := placement.NewCluster(policy)
	for _, n := range nodes {
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// node returns a node with CPU in cores and GPUs in one NVLink group.
func node(name string, cores, gpus int) placement.Node {
	n := placement.Node{Name: name, CPU: int64(cores) * 1000, Memory: 2 << 20, Slots: 110, Model: "h100"}
	for range gpus {
		n.GPUs = append(n.GPUs, placement.GPU{Memory: 80 << 10, NUMA: -1})
	}
	return n
}

// run puts a Pod on GPUs of a node.
func run(t *testing.T, c *placement.Cluster, node string, cores, percent int, gpus ...int) {
	t.Helper()
	pod := placement.Pod{Name: fmt.Sprintf("%s/%v", node, gpus), Node: node, Use: placement.Use{CPU: int64(cores) * 1000, GPUs: gpus, Percent: percent}}
	if err := c.Place(pod); err != nil {
		t.Fatal(err)
	}
}

// stateOf returns the State of a node with some free percentages of its cards, and CPU in
// milli-cores.
func stateOf(t *testing.T, cpu int64, free ...int) *placement.State {
	t.Helper()
	n := node("n", 0, len(free))
	n.CPU = cpu
	c := clusterOf(t, New(Default()), n)
	for gpu, percent := range free {
		if percent < placement.Card {
			run(t, c, "n", 0, placement.Card-percent, gpu)
		}
	}
	var state *placement.State
	c.Root().States(func(s *placement.State, _ int) { state = s })
	return state
}

func whole(cores, gpus int) placement.Shape {
	return placement.Shape{CPU: int64(cores) * 1000, Memory: 1 << 10, GPUs: gpus}
}

func share(cores, percent int) placement.Shape {
	return placement.Shape{CPU: int64(cores) * 1000, Memory: 1 << 10, Share: percent}
}

// near reports whether numbers differ by less than a tolerance. NaN is near
// nothing.
func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }
