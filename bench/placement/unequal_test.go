// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// BenchmarkUnequalMemory plans on 10,000 nodes of one kind: with the same memory, or as
// real machines are, with memory that differs by up to 32 MiB.
func BenchmarkUnequalMemory(b *testing.B) {
	const nodes = 10_000
	whole := &placement.Gang{Roles: []placement.Role{{Shape: shapes[3], Min: 64, Max: 64}}}
	single := &placement.Gang{Roles: []placement.Role{{Shape: shapes[0], Min: 1, Max: 1}}}
	tight := &placement.Gang{Roles: []placement.Role{{Shape: shapes[3], Min: 64, Max: 64}}}
	tight.Roles[0].Shape.Memory = 1<<20 - 48 // half of the unequal nodes have less
	for _, equal := range []bool{true, false} {
		c, policy := halfFull(b, nodes)
		random := rand.New(rand.NewPCG(5, nodes))
		for number := range nodes {
			n := node(number)
			n.Memory -= 32
			if !equal {
				n.Memory -= random.Int64N(33)
			}
			if err := c.SetNode(n); err != nil {
				b.Fatal(err)
			}
		}
		policy.Refresh(c)
		for name, g := range map[string]*placement.Gang{"gang=64x8": whole, "gang=1x1": single, "gang=64x8/all memory": tight} {
			b.Run(fmt.Sprintf("equal=%v/%s", equal, name), func(b *testing.B) {
				measure(b, func() {
					// One Pod comes and goes, so that nothing is cached that would not be.
					if err := c.Place(placement.Pod{Name: "new", Node: node(random.IntN(nodes)).Name, Use: placement.Use{CPU: 1}}); err != nil {
						b.Fatal(err)
					}
					if _, fits, err := c.Plan(g); err != nil || !fits {
						b.Fatal(fits, err)
					}
					c.Remove("new")
				})
				b.ReportMetric(float64(states(c)), "states")
			})
		}
	}
}
