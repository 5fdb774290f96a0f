// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/clusterview"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const secondsPerMinute = 60

// maxWeight bounds Weight: a task of the highest priority is not worth more than
// all others.
const maxWeight = 1000

// Weight returns the factor for the cost of work of a priority: 1 for 0 and below, then a
// tenth more for each point, up to 1000. The PriorityClasses that are shipped have 1.1, 2
// and 11.
func Weight(priority int32) float64 {
	return min(1+float64(max(0, priority))/10, maxWeight)
}

// lost returns the work that is lost if a Pod is moved, in GPU-seconds: what it has done
// since its start or the last checkpoint, whichever is later.
func lost(m *clusterview.Member, now time.Time) int64 {
	pod := checkpoint.Pod{Pod: m.Pod}
	if m.Task != nil {
		pod.Task = m.Task.Annotations
	}
	seconds := max(0, now.Sub(pod.Since(now)).Seconds())
	return int64(math.Round(seconds * float64(snapshot.GPUPercent(&m.Shape)) / 100))
}

func (p *Planner) lostBy(u *clusterview.Unit) int64 {
	sum := int64(0)
	for _, m := range u.Members {
		sum += lost(m, p.Now)
	}
	return sum
}

// cost returns lost, weighted, without the constant for each move.
func cost(m *clusterview.Member, now time.Time) int64 {
	return int64(math.Ceil(float64(lost(m, now)) * Weight(schedulingv1.PodPriority(m.Pod))))
}

// moveCost returns cost with the constant.
func (p *Planner) moveCost(m *clusterview.Member) int64 { return cost(m, p.Now) + perMove }

// Cost is what the moves of a plan cost, and the work that they repeat.
type Cost struct{ GPUSeconds, LostGPUSeconds int64 }

// CurrentCost returns what the moves of a plan would cost now: nobody should approve a plan by an outdated cost. It is
// not known if a Pod is not found.
func CurrentCost(plan *v1.MovePlan, find func(podUID string) *clusterview.Member, now time.Time) (sum Cost, known bool) {
	for i := range plan.Spec.Moves {
		m := find(string(plan.Spec.Moves[i].PodUID))
		if m == nil {
			return Cost{}, false
		}
		sum.GPUSeconds += cost(m, now) + perMove
		sum.LostGPUSeconds += lost(m, now)
	}
	return sum, true
}

// costOf returns the total cost of moving a unit.
func (p *Planner) costOf(u *clusterview.Unit) int64 {
	sum := int64(0)
	for _, m := range u.Members {
		sum += p.moveCost(m)
	}
	return sum
}

// Lost returns the work, in GPU-seconds, that is lost if a task's Pod is evicted now.
func Lost(task *v1.GPUTask, pod *corev1.Pod, now time.Time) int64 {
	return lost(NewMember(task, pod), now)
}

// NewMember returns a task's Pod as far as its cost depends on it.
func NewMember(task *v1.GPUTask, pod *corev1.Pod) *clusterview.Member {
	m := &clusterview.Member{Pod: pod, Task: &clusterview.Task{GPUTask: task}}
	m.Shape, m.Err = snapshot.Shape(pod)
	return m
}
