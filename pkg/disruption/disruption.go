// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package disruption returns which PodDisruptionBudgets cover a Pod, and how many evictions
// they allow. The API server has the last word: this avoids requests that would be
// rejected, and gangs that are evicted only partly.
package disruption

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budgets are the PodDisruptionBudgets of a cluster.
type Budgets struct {
	byNamespace map[string][]budget
	// shown is what the statuses allow, and allowed what is left of it.
	shown, allowed map[string]int
}

type budget struct {
	// name is the namespace and name: "default/train".
	name     string
	selector labels.Selector
	// disrupted are the names of Pods that the budget already counts as gone.
	disrupted map[string]metav1.Time
}

// NewBudgets returns the given budgets.
func NewBudgets(list []*policyv1.PodDisruptionBudget) *Budgets {
	b := &Budgets{byNamespace: map[string][]budget{}, shown: map[string]int{}, allowed: map[string]int{}}
	for _, one := range list {
		selector, err := metav1.LabelSelectorAsSelector(one.Spec.Selector) // no selector selects nothing
		if err != nil {
			continue // the API server has checked it
		}
		name := one.Namespace + "/" + one.Name
		b.shown[name] = int(max(0, one.Status.DisruptionsAllowed))
		b.allowed[name] = b.shown[name]
		b.byNamespace[one.Namespace] = append(b.byNamespace[one.Namespace], budget{name: name, selector: selector, disrupted: one.Status.DisruptedPods})
	}
	return b
}

// Allowed returns how many more evictions each budget allows, by the budget's namespace and
// name.
func (b *Budgets) Allowed() map[string]int { return b.allowed }

// Covering returns the namespaces and names of the budgets that the eviction of a Pod
// counts against: none for a Pod that is already terminating.
func (b *Budgets) Covering(pod *corev1.Pod) []string {
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	var names []string
	for i := range b.byNamespace[pod.Namespace] {
		one := &b.byNamespace[pod.Namespace][i]
		if _, counted := one.disrupted[pod.Name]; !counted && one.selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, one.name)
		}
	}
	return names
}

// Forbids returns why the API server would not evict all the Pods now; it is empty if it would.
func (b *Budgets) Forbids(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if names := b.Covering(pod); len(names) > 1 {
			return fmt.Sprintf("Pod %s is covered by two PodDisruptionBudgets, %s and %s: the API server never evicts such a Pod", pod.Name, names[0], names[1])
		}
	}
	return b.Exceeded(pods)
}

// Exceeded returns which budget does not allow that all the Pods are stopped now; it is empty if all do.
func (b *Budgets) Exceeded(pods []*corev1.Pod) string {
	needed, order := map[string]int{}, []string(nil)
	for _, pod := range pods {
		for _, name := range b.Covering(pod) {
			if needed[name] == 0 {
				order = append(order, name)
			}
			needed[name]++
		}
	}
	for _, name := range order {
		if needed[name] > b.allowed[name] {
			return fmt.Sprintf("PodDisruptionBudget %s lets %d of the %d Pods go now", name, b.allowed[name], needed[name])
		}
	}
	return ""
}
