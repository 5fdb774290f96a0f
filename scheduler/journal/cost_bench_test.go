// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"fmt"
	"io"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	format "falldio.github.io/gpu-controller/pkg/journal"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
	"falldio.github.io/gpu-controller/scheduler/mirror"
)

// nowhere is a disk that takes everything.
type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

// BenchmarkAPod is what the journal costs for a Pod that arrives, gets a place and ends: in the scheduling cycle, and
// in the writer's goroutine.
func BenchmarkAPod(b *testing.B) {
	policy := packing.New(packing.Default())
	cluster := placement.NewCluster(policy)
	shape := &placement.Shape{CPU: 1000, Memory: 1024, GPUs: 1, Models: []string{"h100-80gb-hbm3"}}
	gang := &placement.Gang{Roles: []placement.Role{{Shape: *shape, Min: 1, Max: 1}}}
	options := Options{Directory: b.TempDir(), MaxBytes: 1 << 50, Run: "bench", Clock: clock.RealClock{}, Logger: klog.Logger{}}
	options.create = func(string) (io.WriteCloser, error) { return nowhere{io.Discard}, nil }
	for _, written := range []bool{false, true} {
		b.Run(map[bool]string{false: "in the cycle", true: "with the writer"}[written], func(b *testing.B) {
			r, err := New(options)
			if err != nil {
				b.Fatal(err)
			}
			w := newWriter(r)
			r.Checkpoint(&mirror.Contents{All: true, Memory: policy.Memory()})
			w.write()
			pods := make([]placement.Pod, 1<<10)
			for i := range pods {
				pods[i] = placement.Pod{
					Name: fmt.Sprintf("01234567-89ab-cdef-0123-%012d", i), Node: fmt.Sprintf("node-%05d", i), Use: placement.Use{CPU: 1000, Memory: 1024, GPUs: []int{7}, Percent: 100},
				}
			}
			spare := make([]record, 0, maxBuffered)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				pod := &pods[i%len(pods)]
				r.Learned(shape, false)
				at := r.Position()
				q := &format.Question{Kind: format.Plan, After: at.After}
				q.SetGang(gang, nil)
				q.SetTrial(cluster.TrialChanges())
				q.SetPlace(&placement.Place{Node: pod.Node, Use: pod.Use, Cost: 1.25})
				q.SetSearch(placement.Search{Nodes: 10000, Room: 9000})
				r.PodPlaced(pod, nil, true)
				r.Decided(&format.Decision{
					Subject: "default/" + pod.Name, UID: pod.Name, Outcome: format.Placed, Why: fmt.Sprintf("the cheapest of %d nodes with room, of %d", q.Room, q.Nodes),
					Places: []format.Seat{{Pod: "default/" + pod.Name, Node: pod.Node, GPUs: pod.GPUs, Percent: pod.Percent}},
					After:  at.After, Digest: at.Digest.String(), Asked: []*format.Question{q},
				})
				r.PodRemoved(pod)
				if i%1000 != 999 {
					continue
				}
				if written {
					w.write()
				} else {
					taken := r.take(spare)
					clear(taken)
					spare = taken[:0]
				}
			}
		})
	}
}
