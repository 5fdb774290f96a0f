// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preemption says who may be preempted for whom: Pods of a lower priority, whole
// gangs of them but for the members above a gang's minimum, as far as
// PodDisruptionBudgets allow it. gpu-scheduler preempts by these rules, and the command
// line foretells it.
package preemption

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	"falldio.github.io/gpu-controller/pkg/disruption"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// costless is the priority of victims that leave anyway.
const costless = math.MinInt32

// Holder is a Pod that holds a place.
type Holder struct {
	Pod *corev1.Pod
	// Gang is the gang that it is in; empty for a Pod that is alone.
	Gang string
	// Leaving is true for a Pod that is on its way out, or is about to be.
	Leaving bool
	// Protected is true for a Pod that can't be preempted now, whatever its priority.
	Protected bool
}

// Cluster is what the rules look at.
type Cluster struct {
	// Holder returns the Pod that the engine knows by a name; known is false for what
	// is no Pod.
	Holder func(name string) (holder Holder, known bool)
	// Spare returns how many Pods of a gang may leave while the others stay.
	Spare   func(gang string) int
	Budgets *disruption.Budgets
}

// Preempts reports whether a Pod may have others leave for it at all.
func Preempts(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever
}

// Rules returns the rules for a gang of a priority.
func (c *Cluster) Rules(priority int32) placement.PreemptionRules {
	return placement.PreemptionRules{
		Victim: func(pod *placement.Pod) (int32, bool) {
			holder, known := c.Holder(pod.Name)
			switch {
			case !known || holder.Protected:
				return 0, false
			case holder.Leaving:
				return costless, true
			}
			its := schedulingv1.PodPriority(holder.Pod)
			return its, its < priority
		},
		Group: func(pod *placement.Pod) string {
			if holder, known := c.Holder(pod.Name); known && !holder.Leaving {
				return holder.Gang
			}
			return "" // one that leaves does not take the others of its gang with it
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

// Victims returns the Pods that have to leave for a preemption, without those that leave
// anyway.
func (c *Cluster) Victims(preemption *placement.Preemption) []*corev1.Pod {
	var victims []*corev1.Pod
	for _, name := range preemption.Victims {
		if holder, known := c.Holder(name); known && !holder.Leaving {
			victims = append(victims, holder.Pod)
		}
	}
	return victims
}
