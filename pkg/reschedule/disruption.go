// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package reschedule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// disruption says which PodDisruptionBudget forbids that the Pods of a unit leave
// together. Units move one after the other, each when the Pods of the one before run
// again, so that a budget need not suffice for a whole plan.
func (s *Scene) disruption(u *unit) string {
	pods := make([]*corev1.Pod, len(u.members))
	for i, m := range u.members {
		pods[i] = m.pod
	}
	return Forbidden(s.Budgets, pods)
}

// Forbidden says which PodDisruptionBudget does not allow that all the Pods are evicted
// now; "" if all do. The Eviction API has the last word: this only keeps a gang from
// being evicted halfway.
func Forbidden(budgets []*policyv1.PodDisruptionBudget, pods []*corev1.Pod) string {
	covered := map[*corev1.Pod]string{}
	for _, budget := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil {
			continue // the API server has checked it
		}
		needed := int32(0)
		for _, pod := range pods {
			if pod == nil || pod.Namespace != budget.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			if other := covered[pod]; other != "" {
				return fmt.Sprintf("Pod %s is covered by two PodDisruptionBudgets, %s and %s: the API server evicts no such Pod", pod.Name, other, budget.Name)
			}
			covered[pod] = budget.Name
			needed++
		}
		if needed > budget.Status.DisruptionsAllowed {
			return fmt.Sprintf("PodDisruptionBudget %s/%s allows %d disruptions now, of the %d needed", budget.Namespace, budget.Name, max(0, budget.Status.DisruptionsAllowed), needed)
		}
	}
	return ""
}
