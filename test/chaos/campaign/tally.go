// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/test/chaos/history"
)

// tally counts what there is in a history.
type tally struct {
	tasks, pods map[types.UID]bool
	// stopped are the Pods that were stopped before their end, stops how many there were for each reason.
	stopped map[types.UID]bool
	stops   map[string]int
	// moved is how many Pods each plan has evicted.
	moved map[types.UID]int
}

func newTally() *tally {
	return &tally{tasks: map[types.UID]bool{}, pods: map[types.UID]bool{}, stopped: map[types.UID]bool{}, stops: map[string]int{}, moved: map[types.UID]int{}}
}

func (t *tally) take(entry *history.Entry) {
	switch object := entry.Object; {
	case object == nil:
	case object.Pod != nil:
		t.pods[object.Pod.UID] = true
		t.takeStop(object.Pod)
	case object.Task != nil:
		t.tasks[object.Task.UID] = true
	case object.Plan != nil:
		t.takeMoves(object.Plan)
	}
}

func (t *tally) takeStop(pod *corev1.Pod) {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue && !t.stopped[pod.UID] {
			t.stopped[pod.UID] = true
			t.stops[condition.Reason]++
		}
	}
}

// byPlans is the key in stops for the Pods that plans have evicted, which are among those with the reason of evictions.
const byPlans = "moved by a plan"

func (t *tally) takeMoves(plan *v1.MovePlan) {
	count := 0
	for i := range plan.Status.Moves {
		if plan.Status.Moves[i].EvictedAt != nil {
			count++
		}
	}
	// An eviction that was intended, and not needed any more, is taken out again.
	t.stops[byPlans] += count - t.moved[plan.UID]
	t.moved[plan.UID] = count
}
