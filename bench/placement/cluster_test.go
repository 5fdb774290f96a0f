// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement measures how the placement engine scales with the number of
// nodes.
package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// The structure of a cluster: nodes of 8 GPUs in leaves of 32 nodes, racks of 8
// leaves and zones of 16 racks.
const (
	gpusPerNode   = 8
	nodesPerLeaf  = 32
	leavesPerRack = 8
	racksPerZone  = 16
	leafLevel     = 3
)

// shapes are those of the running Pods: whole GPUs with 12 cores each, and shares.
var shapes = []placement.Shape{
	{CPU: 12000, Memory: 98304, GPUs: 1}, {CPU: 24000, Memory: 196608, GPUs: 2}, {CPU: 48000, Memory: 393216, GPUs: 4},
	{CPU: 96000, Memory: 786432, GPUs: 8}, {CPU: 6000, Memory: 32768, Share: 50}, {CPU: 4000, Memory: 16384, Share: 25},
	{CPU: 8000, Memory: 49152},
}

// node describes a node by its number.
func node(number int) placement.Node {
	leaf := number / nodesPerLeaf
	rack := leaf / leavesPerRack
	n := placement.Node{
		Name: fmt.Sprintf("node-%06d", number), CPU: 128000, Memory: 1 << 20, Slots: 110, Model: "h100-80gb-hbm3",
		Domains: []string{fmt.Sprintf("zone-%d", rack/racksPerZone), fmt.Sprintf("rack-%d", rack), fmt.Sprintf("leaf-%d", leaf)},
	}
	for gpu := range gpusPerNode {
		n.GPUs = append(n.GPUs, placement.GPU{Memory: 81559, Group: 0, NUMA: gpu / 4})
	}
	return n
}

// varied returns shapes as users request them: the same GPUs with other CPU.
func varied() []placement.Shape {
	var list []placement.Shape
	for _, shape := range shapes {
		for _, part := range []int64{1, 2, 3, 4} {
			other := shape
			other.CPU = shape.CPU * part / 4
			list = append(list, other)
		}
	}
	return list
}

// halfFull returns a cluster in which about half of the GPUs are in use and a third of
// the nodes are empty, and a policy that has seen the running shapes.
func halfFull(tb testing.TB, nodes int) (*placement.Cluster, *packing.Policy) {
	tb.Helper()
	policy := packing.New(packing.Default())
	c := placement.NewCluster(policy)
	random := rand.New(rand.NewPCG(1, uint64(nodes)))
	for number := range nodes {
		n := node(number)
		if err := c.SetNode(n); err != nil {
			tb.Fatal(err)
		}
		if random.IntN(3) > 0 {
			fillNode(tb, c, &n, random)
		}
	}
	for range 2048 {
		policy.Learn(c, c.Request(shapes[random.IntN(len(shapes))]))
	}
	return c, policy
}

// fillNode puts Pods on an empty node until about three quarters of it are in use.
func fillNode(tb testing.TB, c *placement.Cluster, n *placement.Node, random *rand.Rand) {
	tb.Helper()
	next, share := 0, 0
	for pod := 0; next < gpusPerNode*3/4; pod++ {
		shape := shapes[random.IntN(len(shapes))]
		use := placement.Use{CPU: shape.CPU, Memory: shape.Memory}
		switch {
		case shape.Share > 0:
			if share+shape.Share > placement.Card {
				continue
			}
			share += shape.Share
			use.GPUs, use.Percent = []int{gpusPerNode - 1}, shape.Share
		case next+shape.GPUs > gpusPerNode-1:
			next++ // too large: leave a gap
			continue
		case shape.GPUs > 0:
			for range shape.GPUs {
				use.GPUs = append(use.GPUs, next)
				next++
			}
			use.Percent = placement.Card
		}
		if pod > 12 {
			return
		}
		if err := c.Place(placement.Pod{Name: fmt.Sprintf("%s/%d", n.Name, pod), Node: n.Name, Use: use}); err != nil {
			tb.Fatal(err)
		}
	}
}
