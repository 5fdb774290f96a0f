// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"container/heap"
	"fmt"
	"time"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// world is the cluster with what runs on it, in virtual time.
type world struct {
	cluster *placement.Cluster
	policy  *packing.Policy
	nodes   int
	now     time.Time
	running map[string]*job
	ends    ends
	used    int // GPUs
	// holders are the jobs by node and card: no card is ever given to two.
	holders map[string]*[cardsPerNode]string
	// onStart is called for each job that starts.
	onStart func(*job)
}

// ends implements heap.Interface, the first end first.
type ends []*job

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return e[i].ended.Before(e[j].ended) || e[i].ended.Equal(e[j].ended) && e[i].ID < e[j].ID
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(one any) { *e = append(*e, one.(*job)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	one := (*e)[last]
	*e = (*e)[:last]
	return one
}

func newWorld(nodes int, begin time.Time) (*world, error) {
	w := &world{nodes: nodes, now: begin, running: map[string]*job{}, policy: packing.New(packing.Default()), holders: map[string]*[cardsPerNode]string{}}
	w.cluster = placement.NewCluster(w.policy)
	for i := range nodes {
		n := placement.Node{Name: nodeName(i), CPU: 1 << 20, Memory: 1 << 20, Slots: 100, Model: "gpu"}
		for range cardsPerNode {
			n.GPUs = append(n.GPUs, placement.GPU{Memory: 24 << 10, Group: -1, NUMA: -1})
		}
		if err := w.cluster.SetNode(n); err != nil {
			return nil, err
		}
		w.holders[n.Name] = &[cardsPerNode]string{}
	}
	return w, nil
}

func nodeName(index int) string { return fmt.Sprintf("n%03d", index) }

// capacity returns the number of GPUs.
func (w *world) capacity() int { return w.nodes * cardsPerNode }

// plan returns a place for a job; nil if there is none.
func (w *world) plan(j *job) *placement.Plan {
	if w.cluster.Root().Room(j.request) < j.members {
		return nil
	}
	plan, _, _ := w.cluster.Plan(j.gang)
	return plan
}

// start starts a job at a place, and checks that the place is free.
func (w *world) start(j *job, plan *placement.Plan) error {
	if len(plan.Members) != j.members {
		return fmt.Errorf("job %s: has %d places, needs %d", j.key, len(plan.Members), j.members)
	}
	for i, m := range plan.Members {
		if len(m.GPUs) != j.request.GPUs {
			return fmt.Errorf("job %s: has %d GPUs on node %s, needs %d", j.key, len(m.GPUs), m.Node, j.request.GPUs)
		}
		for _, card := range m.GPUs {
			holder := &w.holders[m.Node][card]
			if *holder != "" {
				return fmt.Errorf("job %s: GPU %d of node %s is held by job %s", j.key, card, m.Node, *holder)
			}
			*holder = j.key
		}
		if err := w.cluster.Place(placement.Pod{Name: j.pods[i], Node: m.Node, Use: m.Use}); err != nil {
			return err
		}
	}
	j.started, j.ended, j.places = w.now, w.now.Add(j.Duration), plan.Members
	w.running[j.key] = j
	heap.Push(&w.ends, j)
	w.used += j.held()
	w.onStart(j)
	return nil
}

// end ends the job whose end comes first.
func (w *world) end() *job {
	j := heap.Pop(&w.ends).(*job)
	for i, m := range j.places {
		for _, card := range m.GPUs {
			w.holders[m.Node][card] = ""
		}
		w.cluster.Remove(j.pods[i])
	}
	delete(w.running, j.key)
	w.used -= j.held()
	return j
}
