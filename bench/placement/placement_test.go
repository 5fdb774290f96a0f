// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
)

var sizes = []int{1_000, 10_000, 100_000}

// BenchmarkPlan plans a gang of 1000 Pods that prefers one leaf.
func BenchmarkPlan(b *testing.B) {
	for _, nodes := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c, _ := halfFull(b, nodes)
			g := &placement.Gang{Level: leafLevel, Roles: []placement.Role{{Shape: shapes[0], Min: 1000, Max: 1000}}}
			measure(b, func() {
				if _, fits, err := c.Plan(g); err != nil || !fits {
					b.Fatal(fits, err)
				}
			})
			b.ReportMetric(float64(states(c)), "states")
		})
	}
}

// BenchmarkPlanOfWholeNodes plans a gang of 100 Pods of 8 GPUs that must be in
// one zone.
func BenchmarkPlanOfWholeNodes(b *testing.B) {
	for _, nodes := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c, _ := halfFull(b, nodes)
			g := &placement.Gang{Level: 1, Required: true, Roles: []placement.Role{{Shape: shapes[3], Min: 100, Max: 100}}}
			measure(b, func() {
				if _, fits, err := c.Plan(g); err != nil || !fits {
					b.Fatal(fits, err)
				}
			})
		})
	}
}

// BenchmarkFind learns from and places single Pods of many shapes, and removes each of
// them later.
func BenchmarkFind(b *testing.B) {
	for _, nodes := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c, policy := halfFull(b, nodes)
			shapes := varied()
			round := 0
			const stay = 500
			measure(b, func() {
				round++
				request := c.Request(shapes[round%len(shapes)])
				policy.Learn(c, request)
				place, found := c.Find(request, c.Root())
				if !found {
					b.Fatal("there is no room")
				}
				if err := c.Place(placement.Pod{Name: fmt.Sprint(round), Node: place.Node, Use: place.Use}); err != nil {
					b.Fatal(err)
				}
				c.Remove(fmt.Sprint(round - stay))
			})
			b.ReportMetric(float64(states(c)), "states")
		})
	}
}

// BenchmarkUpdate sets one node again, as happens for each node that has changed in a
// snapshot.
func BenchmarkUpdate(b *testing.B) {
	for _, nodes := range sizes {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			c, _ := halfFull(b, nodes)
			round := 0
			measure(b, func() {
				round++
				changed := node(round * 7919 % nodes)
				changed.GPUs[3].Broken = round%2 == 0
				if err := c.SetNode(changed); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// measure runs do b.N times, after a first time that does not count, and reports the 99th
// percentile besides the mean.
func measure(b *testing.B, do func()) {
	b.Helper()
	do()
	var times []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		do()
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[(len(times)-1)*99/100].Microseconds())/1000, "p99-ms")
}

func states(c *placement.Cluster) int {
	count := 0
	c.Root().States(func(*placement.State, int) { count++ })
	return count
}
