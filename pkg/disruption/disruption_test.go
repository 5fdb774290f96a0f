// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newBudget(name string, allowed int32, selector *metav1.LabelSelector, disrupted ...string) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, DisruptedPods: map[string]metav1.Time{}},
	}
	for _, pod := range disrupted {
		budget.Status.DisruptedPods[pod] = metav1.Time{}
	}
	return budget
}

func newPod(name, app string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}}}
}

func app(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func TestCovering(t *testing.T) {
	t.Parallel()
	leaving, elsewhere := newPod("a", "train"), newPod("a", "train")
	leaving.DeletionTimestamp, elsewhere.Namespace = &metav1.Time{}, "other"
	tests := map[string]struct {
		pod    *corev1.Pod
		budget *policyv1.PodDisruptionBudget
		want   []string
	}{
		"a budget whose selector matches":            {newPod("a", "train"), newBudget("b", 1, app("train")), []string{"default/b"}},
		"a budget for other labels":                  {newPod("a", "serve"), newBudget("b", 1, app("train")), nil},
		"a budget of another namespace":              {elsewhere, newBudget("b", 1, app("train")), nil},
		"a budget without a selector covers nothing": {newPod("a", "train"), newBudget("b", 1, nil), nil},
		"a budget with an empty selector covers all": {newPod("a", "train"), newBudget("b", 1, &metav1.LabelSelector{}), []string{"default/b"}},
		"a Pod that is leaving":                      {leaving, newBudget("b", 1, app("train")), nil},
		"a Pod that the budget counts as gone":       {newPod("a", "train"), newBudget("b", 1, app("train"), "a"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := NewBudgets([]*policyv1.PodDisruptionBudget{test.budget}).Covering(test.pod)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("budgets (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForbids(t *testing.T) {
	t.Parallel()
	pods := []*corev1.Pod{newPod("a", "train"), newPod("b", "train")}
	tests := map[string]struct {
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		"no budget":                  {nil, ""},
		"a budget that lets both go": {[]*policyv1.PodDisruptionBudget{newBudget("b", 2, app("train"))}, ""},
		"a budget that lets one go": {
			[]*policyv1.PodDisruptionBudget{newBudget("b", 1, app("train"))},
			"PodDisruptionBudget default/b lets 1 of the 2 Pods go now",
		},
		"a budget that counts one of them already": {[]*policyv1.PodDisruptionBudget{newBudget("b", 1, app("train"), "a")}, ""},
		"two budgets for one Pod": {
			[]*policyv1.PodDisruptionBudget{newBudget("b", 9, app("train")), newBudget("c", 9, &metav1.LabelSelector{})},
			"covered by two PodDisruptionBudgets, default/b and default/c",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := NewBudgets(test.budgets).Forbids(pods)
			if !strings.Contains(got, test.want) || (test.want == "") != (got == "") {
				t.Errorf("got %q, want %q in it", got, test.want)
			}
		})
	}
}

func TestAllowed(t *testing.T) {
	t.Parallel()
	budgets := NewBudgets([]*policyv1.PodDisruptionBudget{newBudget("some", 2, app("a")), newBudget("none", 0, app("b")), newBudget("overdrawn", -1, app("c"))})
	want := map[string]int{"default/some": 2, "default/none": 0, "default/overdrawn": 0}
	if diff := cmp.Diff(want, budgets.Allowed()); diff != "" {
		t.Errorf("allowed (-want +got):\n%s", diff)
	}
}
