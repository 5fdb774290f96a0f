// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// fragmented returns a cluster of nodes of 8 GPUs of which about 5 % are free, scattered
// over the nodes, after Pods of all sizes have come and some have left.
func fragmented(tb testing.TB, nodes int) (*placement.Cluster, placement.MoveRules) {
	tb.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWorld()
	free := make([]*ledger, nodes)
	for i := range nodes {
		w.node(fmt.Sprintf("node-%04d", i), 8, 128, fmt.Sprintf("leaf-%02d", i/32))
		w.nodes[i].Memory = 1 << 20
		free[i] = newLedger(&w.nodes[i])
	}
	for i, l := range free {
		for n := 0; slices.Max(l.cards) >= 30; n++ {
			name := podName(i, n)
			shape := benchShape(rng)
			choices := l.choices(&shape)
			if len(choices) == 0 {
				continue
			}
			w.run(name, w.nodes[i].Name, shape, choices[0]...)
			w.costs[name] = float64(rng.IntN(100_000)) / 1000 * float64(shape.Percent()) / 100
			l.take(&w.pods[len(w.pods)-1].Use, 1)
		}
	}
	w.leave(rng, nodes*8*5)
	c := placement.NewCluster(packing.New(packing.Default()))
	for _, node := range w.nodes {
		if err := c.SetNode(node); err != nil {
			tb.Fatal(err)
		}
	}
	for _, pod := range w.pods {
		if err := c.Place(pod); err != nil {
			tb.Fatal(err)
		}
	}
	return c, w.rules()
}

func podName(node, number int) string { return fmt.Sprintf("pod-%04d-%02d", node, number) }

func benchShape(rng *rand.Rand) placement.Shape {
	shape := placement.Shape{CPU: int64(1 + rng.IntN(4)), Memory: 8000}
	switch size := rng.IntN(20); {
	case size < 7:
		shape.Share = 10 * (2 + rng.IntN(7))
	case size < 14:
		shape.GPUs = 1
	case size < 16:
		shape.GPUs = 2
	case size < 18:
		shape.GPUs = 4
	default:
		shape.GPUs = 8
	}
	shape.CPU *= int64(max(1, shape.GPUs))
	return shape
}

// leave removes Pods, but none that has a node to itself, until that many more percent of
// a GPU are free.
func (w *world) leave(rng *rand.Rand, percent int) {
	rng.Shuffle(len(w.pods), func(i, j int) { w.pods[i], w.pods[j] = w.pods[j], w.pods[i] })
	w.pods = slices.DeleteFunc(w.pods, func(pod placement.Pod) bool {
		if percent <= 0 || len(pod.GPUs) == 8 {
			return false
		}
		percent -= len(pod.GPUs) * pod.Percent
		return true
	})
}

func BenchmarkConsolidationForAWholeNode(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c, rules := fragmented(b, nodes)
			for _, gang := range []*placement.Gang{
				loneGang(placement.Shape{CPU: 32, Memory: 64000, GPUs: 8}),
				{Roles: []placement.Role{{Shape: placement.Shape{CPU: 16, Memory: 64000, GPUs: 8}, Min: 4, Max: 4}}, Level: 1, Required: true},
				{Roles: []placement.Role{{Shape: placement.Shape{CPU: 16, Memory: 64000, GPUs: 4}, Min: 6 + nodes/40, Max: 6 + nodes/40}}},
			} {
				b.Run(fmt.Sprintf("gang=%dx%d", gang.Roles[0].Min, gang.Roles[0].Shape.GPUs), func(b *testing.B) {
					for b.Loop() {
						result, found, err := c.Consolidate(gang, rules)
						if err != nil || !found {
							b.Fatalf("found %v, error %v", found, err)
						}
						b.ReportMetric(float64(len(result.Moves)), "moves")
						b.ReportMetric(result.Cost, "cost")
					}
				})
			}
		})
	}
}
