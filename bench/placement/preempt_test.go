// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// full returns a cluster all of whose GPUs are in use, by Pods of one GPU each or
// of one to eight, and rules for it: ten priorities, a tenth of the Pods protected.
// A quarter of the Pods are in groups of up to 16, of which 2 are spare.
func full(tb testing.TB, nodes int, mixed bool) (*placement.Cluster, placement.PreemptionRules) {
	tb.Helper()
	policy := packing.New(packing.Default())
	c := placement.NewCluster(policy)
	random := rand.New(rand.NewPCG(3, uint64(nodes)))
	priorities, groups := map[string]int32{}, map[string]string{}
	group, members := "", 0
	for number := range nodes {
		n := node(number)
		if err := c.SetNode(n); err != nil {
			tb.Fatal(err)
		}
		for gpu := 0; gpu < gpusPerNode; {
			count := 1
			if mixed {
				count = min(1<<random.IntN(4), gpusPerNode-gpu)
			}
			pod := placement.Pod{Name: fmt.Sprintf("%s/%d", n.Name, gpu), Node: n.Name, Use: placement.Use{CPU: 8000 * int64(count), Memory: 65536, Percent: placement.Card}}
			for range count {
				pod.GPUs = append(pod.GPUs, gpu)
				gpu++
			}
			if err := c.Place(pod); err != nil {
				tb.Fatal(err)
			}
			priorities[pod.Name] = int32(random.IntN(10) * 100)
			if mixed {
				if members == 0 && random.IntN(32) == 0 {
					group, members = pod.Name, 2+random.IntN(15)
				}
				if members > 0 {
					groups[pod.Name], priorities[pod.Name] = group, priorities[group]
					members--
				}
			}
		}
	}
	for range 2048 {
		policy.Learn(c, c.Request(shapes[random.IntN(len(shapes))]))
	}
	return c, placement.PreemptionRules{
		Victim: func(pod *placement.Pod) (int32, bool) {
			return priorities[pod.Name], !strings.HasSuffix(pod.Node, "7")
		},
		Group: func(pod *placement.Pod) string { return groups[pod.Name] },
		Spare: func(string) int { return 2 },
	}
}

// BenchmarkPreempt looks for victims in a cluster that is full.
func BenchmarkPreempt(b *testing.B) {
	gang := func(members int, shape placement.Shape) *placement.Gang {
		return &placement.Gang{Roles: []placement.Role{{Shape: shape, Min: members, Max: members}}}
	}
	in := func(g *placement.Gang, level int, required bool) *placement.Gang {
		g.Level, g.Required = level, required
		return g
	}
	launcher := gang(32, shapes[3])
	launcher.Roles = append(launcher.Roles, placement.Role{Shape: placement.Shape{CPU: 16000, Memory: 65536}, Min: 1, Max: 1})
	gangs := map[string]*placement.Gang{
		"gang=1x1": gang(1, shapes[0]), "gang=1x8": gang(1, shapes[3]), "gang=64x1": gang(64, shapes[0]), "gang=64x8": gang(64, shapes[3]),
		"gang=64x8/rack=required": in(gang(64, shapes[3]), 2, true), "gang=16x8/leaf=preferred": in(gang(16, shapes[3]), leafLevel, false),
		"gang=64x8/leaf=preferred": in(gang(64, shapes[3]), leafLevel, false), "gang=32x8+1": launcher,
		"gang=10000x8": gang(10_000, shapes[3]), // never fits
	}
	for _, nodes := range sizes[:2] {
		for _, mixed := range []bool{false, true} {
			c, rules := full(b, nodes, mixed)
			for name, g := range gangs {
				b.Run(fmt.Sprintf("nodes=%d/mixed=%v/%s", nodes, mixed, name), func(b *testing.B) {
					victims := 0
					measure(b, func() {
						result, found, err := c.Preempt(g, rules)
						if err != nil || found != (g.Roles[0].Min < 10_000) {
							b.Fatal(found, err)
						}
						if found {
							victims = len(result.Victims)
						}
					})
					b.ReportMetric(float64(victims), "victims")
				})
			}
		}
	}
}
