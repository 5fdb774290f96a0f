// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// BenchmarkPass is what gpu-controller does every ten seconds: all statuses of 1,000 queues with
// 10,000 Pods, of which half wait.
func BenchmarkPass(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 1))
	var queues []*v1.GPUQueue
	for i := range 1000 {
		parent := ""
		if i >= 10 {
			parent = fmt.Sprintf("q%d", random.IntN(i/10))
		}
		queues = append(queues, newQueue(fmt.Sprintf("q%d", i), parent, quota("*", 0, 1000), quota("h100", 0)))
	}
	var pods []*corev1.Pod
	for i := range 10_000 {
		pod := newPod(fmt.Sprint(i), fmt.Sprintf("q%d", random.IntN(1000)), 1+random.Int64N(8), ofTask(fmt.Sprint(i/4), i%4))
		if i%2 == 0 {
			runsSince(time.Duration(random.IntN(3600)) * time.Second)(pod)
		}
		pods = append(pods, pod)
	}
	tree, accounts := NewTree(queues), Accounts{}
	accounts.Load(queues)
	at := now
	for b.Loop() {
		at = at.Add(10 * time.Second)
		view := NewView(tree)
		for _, pod := range pods {
			view.Add(newCluster(), pod)
		}
		accounts.Charge(tree, view.Holdings, at, halfLife)
		report := NewReport(view, accounts, halfLife, at)
		for _, queue := range queues {
			queue.Status = report.Status(queue)
		}
	}
}
