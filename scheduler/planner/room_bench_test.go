// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/scheduler/gangs"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// filterers is how many nodes kube-scheduler filters at the same time.
const filterers = 16

// newRoomy returns a planner of 10,000 nodes, on 100 of which Pods have seats that the snapshot does not show. For each
// of four gangs, 250 others are kept.
func newRoomy(b *testing.B) (f *fixture, nodes []fwk.NodeInfo) {
	b.Helper()
	f = newFixture(b)
	for i := range 10_000 {
		f.addNode(fmt.Sprint("node-", i), "l", 1)
	}
	nodes = f.nodes()
	f.refresh(nodes)
	for i := range 100 {
		f.mirror.Hold(pod(fmt.Sprint("seated-", i), 1), placement.Place{Node: f.names[i], Use: placement.Use{CPU: 1000, Percent: placement.Card, GPUs: []int{0}}})
	}
	for i := range 4 {
		one := &keptFor{rank: gangs.Rank{Priority: 1, Since: beginning}, nodes: map[string]mirror.Withheld{}, until: beginning.Add(time.Hour)}
		for j := range 250 {
			one.nodes[f.names[1000*(i+1)+j]] = mirror.Withheld{CPU: 1000, Pods: 1}
		}
		f.kept.list[fmt.Sprint("gang-", i)] = one
	}
	return f, nodes
}

// inParallel calls do for all nodes, as kube-scheduler does.
func inParallel(nodes []fwk.NodeInfo, do func(fwk.NodeInfo)) {
	var group sync.WaitGroup
	for part := range filterers {
		group.Go(func() {
			for i := part; i < len(nodes); i += filterers {
				do(nodes[i])
			}
		})
	}
	group.Wait()
}

// BenchmarkFilteringForAPodWithoutGPUs is what is kept from a Pod without GPUs on 10,000 nodes.
func BenchmarkFilteringForAPodWithoutGPUs(b *testing.B) {
	f, nodes := newRoomy(b)
	web := pod("web", 0)
	b.ResetTimer()
	for b.Loop() {
		keptFrom(b, f, web, nodes)
	}
}

func keptFrom(b *testing.B, f *fixture, pod *corev1.Pod, nodes []fwk.NodeInfo) {
	b.Helper()
	room := f.KeptRoom(pod, nodes)
	if room == nil {
		b.Fatal("nothing is kept")
	}
	inParallel(nodes, func(node fwk.NodeInfo) { room.On(node) })
}
