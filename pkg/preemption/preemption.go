// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preemption defines which Pods may be preempted for which: Pods of a lower
// priority, whole gangs of them except for members above a gang's minimum, as far as
// PodDisruptionBudgets allow it. gpu-scheduler preempts by these rules, and the command
// line predicts it.
package preemption

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	"falldio.github.io/gpu-controller/pkg/checkpoint"
	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

// costless is the priority of victims that are terminating anyway.
const costless = math.MinInt32

// Holder is a Pod that holds a place.
type Holder struct {
	Pod *corev1.Pod
	// Gang is the gang of the Pod; empty for a Pod without one.
	Gang string
	// Leaving is true for a Pod that is terminating, or is about to.
	Leaving bool
	// Protected is true for a Pod that can't be preempted now, whatever its priority.
	Protected bool
}

// Cluster is what the rules depend on.
type Cluster struct {
	// Holder returns the Pod that the engine identifies by a name; known is false if it is
	// not a Pod.
	Holder func(name string) (holder Holder, known bool)
	// Spare returns how many Pods of a gang may leave while the others stay.
	Spare   func(gang string) int
	Budgets *disruption.Budgets
	// Victim returns the priority by which a Pod is chosen that is neither leaving nor protected, and whether it may be
	// preempted at all; nil for all Pods of a lower priority. See Queues.
	Victim func(pod *corev1.Pod) (priority int32, may bool)
	// Now is the time up to which Pods have worked.
	Now time.Time
}

// Preempts reports whether a Pod may preempt others at all.
func Preempts(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever
}

// Rules returns the rules for preemption by a gang of a priority.
func (c *Cluster) Rules(priority int32) placement.PreemptionRules {
	return placement.PreemptionRules{
		Victim: func(pod *placement.Pod) (int32, bool) {
			holder, known := c.Holder(pod.Name)
			switch {
			case !known || holder.Protected:
				return 0, false
			case holder.Leaving:
				return costless, true
			case c.Victim != nil:
				return c.Victim(holder.Pod)
			}
			victim := schedulingv1.PodPriority(holder.Pod)
			return victim, victim < priority
		},
		Lost: func(pod *placement.Pod) float64 {
			holder, known := c.Holder(pod.Name)
			if !known || holder.Leaving {
				return 0
			}
			one := checkpoint.Pod{Pod: holder.Pod}
			return max(0, c.Now.Sub(one.Since(c.Now)).Seconds()) * float64(snapshot.UsePercent(&pod.Use)) / placement.Card
		},
		Group: func(pod *placement.Pod) string {
			if holder, known := c.Holder(pod.Name); known && !holder.Leaving {
				return holder.Gang
			}
			return "" // a leaving Pod does not take the others of its gang with it
		},
		Spare: c.Spare,
		Budgets: func(pod *placement.Pod) []string {
			if holder, known := c.Holder(pod.Name); known && !holder.Leaving {
				return c.Budgets.Covering(holder.Pod)
			}
			return nil
		},
		Allowed: c.Budgets.Allowed(),
	}
}

// Victims returns the Pods that must be evicted for a preemption, without those that are
// leaving anyway.
func (c *Cluster) Victims(preemption *placement.Preemption) []*corev1.Pod {
	var victims []*corev1.Pod
	for _, name := range preemption.Victims {
		if holder, known := c.Holder(name); known && !holder.Leaving {
			victims = append(victims, holder.Pod)
		}
	}
	return victims
}
