// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package backfill_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/pkg/queueing/backfill"
)

// large returns 10,000 nodes with a Pod of 6 GPUs each, and 8 waiting gangs with
// members of 8 GPUs.
func large(b *testing.B, members int) *backfill.Input {
	b.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	in := &backfill.Input{Cluster: placement.NewCluster(packing.New(packing.Default())), Now: now}
	for i := range 10_000 {
		n := placement.Node{Name: fmt.Sprintf("n%05d", i), CPU: 64000, Memory: 512000, Slots: 100, Model: "h100", Domains: []string{fmt.Sprintf("r%03d", i/32)}}
		for range 8 {
			n.GPUs = append(n.GPUs, placement.GPU{Memory: 80000, Group: -1, NUMA: -1})
		}
		if err := in.Cluster.SetNode(n); err != nil {
			b.Fatal(err)
		}
		pod := placement.Pod{Name: fmt.Sprintf("p%d", i), Node: n.Name, Use: placement.Use{CPU: random.Int64N(8) * 4000, GPUs: []int{0, 1, 2, 3, 4, 5}, Percent: 100}}
		if err := in.Cluster.Place(pod); err != nil {
			b.Fatal(err)
		}
		in.Running = append(in.Running, backfill.Running{Key: pod.Name, Pods: []string{pod.Name}, Ends: now.Add(time.Duration(1+random.IntN(100_000)) * time.Second)})
	}
	for i := range 8 {
		in.Waiting = append(in.Waiting, backfill.Waiting{
			Key: fmt.Sprintf("w%d", i), Bound: time.Duration(1+i) * time.Hour,
			Gang: &placement.Gang{Roles: []placement.Role{{Shape: placement.Shape{GPUs: 8, CPU: 40000}, Min: members, Max: members}}},
		})
	}
	return in
}

func BenchmarkPlan8GangsOn10000Nodes(b *testing.B) {
	in := large(b, 16)
	for b.Loop() {
		backfill.Plan(in)
	}
}

func BenchmarkRevise8GangsOn10000Nodes(b *testing.B) {
	in := large(b, 16)
	before := backfill.Plan(in)
	in.Now = in.Now.Add(time.Second)
	for b.Loop() {
		backfill.Revise(in, before)
	}
}

func BenchmarkPlan8HugeGangsOn10000Nodes(b *testing.B) {
	in := large(b, 1000)
	for b.Loop() {
		backfill.Plan(in)
	}
}

func BenchmarkShadowsOn10000Nodes(b *testing.B) {
	in := large(b, 16)
	before := backfill.Plan(in)
	for b.Loop() {
		backfill.Shadows(in.Cluster, before, in.Now, time.Hour)
	}
}
