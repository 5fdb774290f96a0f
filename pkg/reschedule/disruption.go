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
	leaving := map[*policyv1.PodDisruptionBudget]int32{}
	for _, m := range u.members {
		budgets := s.budgetsOf(m.pod)
		if len(budgets) > 1 {
			return fmt.Sprintf("Pod %s has several PodDisruptionBudgets, with which nobody can evict it", m.pod.Name)
		}
		for _, budget := range budgets {
			leaving[budget]++
			if leaving[budget] > budget.Status.DisruptionsAllowed {
				return fmt.Sprintf("PodDisruptionBudget %s allows %d disruptions", budget.Name, max(0, budget.Status.DisruptionsAllowed))
			}
		}
	}
	return ""
}

// budgetsOf returns those that cover a Pod.
func (s *Scene) budgetsOf(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var list []*policyv1.PodDisruptionBudget
	for _, budget := range s.Budgets {
		if budget.Namespace != pod.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			list = append(list, budget)
		}
	}
	return list
}
