// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
)

// manyPods returns a fixture in which a queue has borrowed the GPUs of 2,500 nodes, with a Pod on each, and Pods that
// wait in the queue that is guaranteed a few of them.
func manyPods(b *testing.B, waits int) (f *fixture, waiting []*corev1.Pod) {
	b.Helper()
	f = newFixture(b)
	const nodes, cards = 2500, 8
	for i := range nodes {
		f.addNode(fmt.Sprint("n", i), "l", cards)
	}
	f.withQueues(queue("owner", 4, nil), queue("guest", 0, nil))
	for i := range nodes {
		for c := range cards {
			f.comes(at(pod(fmt.Sprintf("r%d-%d", i, c), 1, inQueue("guest"), since(beginning)), fmt.Sprint("n", i), c))
		}
	}
	for i := range waits {
		waiting = append(waiting, pod(fmt.Sprint("w", i), 8, inQueue("owner"), later(i))) // more than what is guaranteed
	}
	f.comes(waiting...)
	f.decide(waiting[0])
	return f, waiting
}

// An attempt that is known to be in vain, with what follows it, while 20,000 Pods run.
func BenchmarkAnAttemptInVainBesideManyPods(b *testing.B) {
	f, waiting := manyPods(b, 20)
	for i := 0; b.Loop(); i++ {
		one := waiting[i%len(waiting)]
		f.decide(one)
		f.Preempt(b.Context(), one)
	}
}

// For how long the mirror is locked while it is estimated when Pods start that wait: the median of the longest times.
func BenchmarkEstimatesKeepNobodyWaiting(b *testing.B) {
	f, _ := manyPods(b, 20)
	f.line.Order()
	var waits []time.Duration
	for b.Loop() {
		stop, longest := make(chan struct{}), time.Duration(0)
		var asking sync.WaitGroup
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					began := time.Now()
					f.mirror.Version()
					longest = max(longest, time.Since(began))
				}
			}
		})
		f.line.Future(f.line.State(), f.line.Waiting(), f.clock.Now())
		close(stop)
		asking.Wait()
		waits = append(waits, longest)
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "ms-locked")
}

// What it takes to revise the reservations of several classes, in one scheduling cycle.
func BenchmarkReservationsBesideManyPods(b *testing.B) {
	f, _ := manyPods(b, 1)
	for i, node := range f.names {
		f.change(node, func(n *corev1.Node) { n.Labels[v1.LabelGPUModel] = fmt.Sprint("model-", i%8) })
	}
	f.refresh(f.nodes())
	for i := range 200 {
		waits := pod(fmt.Sprint("waits-", i), 8, inQueue("guest"), onModel(fmt.Sprint("model-", i%8)), runsFor(time.Hour), later(1))
		waits.Namespace = fmt.Sprint("team-", i%5)
		f.comes(waits)
		f.decide(waits)
	}
	f.line.Order()
	for b.Loop() {
		f.clock.Step(10 * time.Minute) // they are due
		f.line.LookAhead()
	}
	if count := len(f.line.Bookings()); count != 4*f.args.Reservations {
		b.Errorf("%d reservations", count)
	}
}
