// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuqueue

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"falldio.github.io/gpu-controller/pkg/queueing"
	"falldio.github.io/gpu-controller/pkg/queueing/runtimes"
)

// Applying is a gang that waits.
type Applying struct {
	// Job is what is known of it, but for its queue and its run time, and Pod one of its Pods, which decides on these.
	Job queueing.Job
	Pod *corev1.Pod
	// Asked is what it asks for.
	Asked queueing.Amounts
	// Position is its place in its queue, from 1, as gpu-scheduler has published it; 0 if it has not.
	Position int
}

// Order returns the indexes of gangs in the order in which the queues serve them: inside a queue as gpu-scheduler has
// published it, otherwise by its default policy. Those that are not served come last.
func (l *Limits) Order(list []Applying) []int {
	if l.held == nil { // there are no queues
		order := make([]int, len(list))
		for i := range order {
			order[i] = i
		}
		return order
	}
	var jobs []queueing.Job
	var asked []queueing.Amounts
	var index, others []int
	for i := range list {
		gang := &list[i]
		applicant := Applicant(gang.Pod, l.cluster.Namespace(gang.Pod.Namespace))
		assigned := l.cluster.Tree.Assign(&applicant)
		if assigned.Problem != nil {
			others = append(others, i)
			continue
		}
		job := gang.Job
		job.Queue, job.Runtime = assigned.Queue, DeclaredRuntime(l.cluster.Tree, assigned.Queue, MaxRuntime(gang.Pod))
		jobs, asked, index = append(jobs, job), append(asked, gang.Asked), append(index, i)
	}
	slots := map[string][]int{} // of each queue, in the order
	order := make([]int, 0, len(list))
	for slot, ranked := range (queueing.Options{}).Serve(jobs, asked, l.cluster.Factors, l.held) {
		queue := jobs[ranked.Index].Queue
		slots[queue] = append(slots[queue], slot)
		order = append(order, index[ranked.Index])
	}
	for _, own := range slots {
		inOwnOrder(list, order, own)
	}
	return append(order, others...)
}

// inOwnOrder sorts the gangs of one queue, which are at some slots of an order, by their places in it.
func inOwnOrder(list []Applying, order, slots []int) {
	gangs, published := make([]int, len(slots)), make([]int, len(slots))
	for i, slot := range slots {
		gangs[i], published[i] = order[slot], list[order[slot]].Position
	}
	places := map[int]int{} // by gang
	for i, place := range Places(published) {
		places[gangs[i]] = place
	}
	slices.SortStableFunc(gangs, func(a, b int) int { return places[a] - places[b] })
	for i, slot := range slots {
		order[slot] = gangs[i]
	}
}

// Places returns the places, from 1, of jobs of one queue: those that were published, and for those without one (0), in
// their order, places that no other has.
func Places(published []int) []int {
	taken := sets.New(published...)
	places, next := slices.Clone(published), 1
	for i := range places {
		if places[i] > 0 {
			continue
		}
		for taken.Has(next) {
			next++
		}
		places[i] = next
		next++
	}
	return places
}

// DeclaredRuntime returns how long a job of a queue runs, from what it declares, 0 for nothing, and what the queue
// assumes. The tree may be nil.
func DeclaredRuntime(tree *queueing.Tree, queue string, declared time.Duration) queueing.Runtime {
	if declared == 0 && tree != nil {
		declared = tree.DefaultRuntime(queue)
	}
	if declared == 0 {
		return queueing.Runtime{}
	}
	return runtimes.Exactly(declared).Runtime()
}
