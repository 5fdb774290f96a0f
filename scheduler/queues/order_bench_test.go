// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/gpuqueue"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
	"falldio.github.io/gpu-controller/scheduler/gangs"
)

// BenchmarkOrderOf10000PodsIn1000Queues is how long it takes to order 10,000 Pods that wait in 1,000 queues on three
// levels, and to decide whether the first one is within the limits. Its CPU time is reported as well, which other load
// on the machine disturbs less.
func BenchmarkOrderOf10000PodsIn1000Queues(b *testing.B) {
	var list []*v1.GPUQueue
	add := func(name, parent string, guaranteed int32) {
		one := queue(name, guaranteed, new(2*guaranteed))
		one.Spec.Parent = parent
		list = append(list, one)
	}
	for i := range 10 {
		root := fmt.Sprintf("q%d", i)
		add(root, "", 800)
		for j := range 9 {
			team := fmt.Sprintf("%s-%d", root, j)
			add(team, root, 80)
			for k := range 10 {
				add(fmt.Sprintf("%s-%d", team, k), team, 8)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 7))
	waiting, shapes := make([]gangs.Waiting, 10_000), map[string]placement.Shape{}
	for i := range waiting {
		size := 1 << random.IntN(4)
		leader := pod(fmt.Sprint("pod-", i), size, inQueue(list[random.IntN(len(list))].Name), runsFor(time.Duration(1+random.IntN(1000))*time.Minute))
		shape, err := snapshot.Shape(leader)
		if err != nil {
			b.Fatal(err)
		}
		shapes[leader.Name] = shape
		waiting[i] = gangs.Waiting{
			Key: leader.Name, Leader: leader, Shape: &shape, Priority: int32(random.IntN(3)), Since: beginning.Add(time.Duration(random.IntN(10_000)) * time.Second), Percent: size * placement.Card,
		}
	}
	l := newLine(b, bareCore{})
	for i := range 1000 {
		l.book.history.Add(taskOf(waiting[i].Leader), time.Duration(1+random.IntN(1000))*time.Second)
	}
	state := NewState(gpuqueue.NewTree(list), list, func(string) *corev1.Namespace { return nil })
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, decisions := threadTime(b), 0
	for b.Loop() {
		decisions++
		first := l.inOrder(state, waiting)[0]
		gang := &gangs.Request{Members: &snapshot.Members[*gangs.Member]{Gang: placement.Gang{Roles: []placement.Role{{Shape: shapes[first.Key], Min: 1, Max: 1}}}}}
		if _, admitted := l.fitLimits(l.Ledger(state, first.Key), first.queue, gang); admitted.Waits != "" {
			b.Fatal(admitted.Waits)
		}
	}
	b.ReportMetric(1000*(threadTime(b)-began)/float64(decisions), "cpu-ms/op")
}

// threadTime returns how much CPU time this thread has used, in seconds.
func threadTime(tb testing.TB) float64 {
	tb.Helper()
	const thisThread = 1 // RUSAGE_THREAD
	var used syscall.Rusage
	if err := syscall.Getrusage(thisThread, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()).Seconds()
}
