// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// What is restored from a key has the key, and judges nodes alike.
func TestSelectorsAndPreferencesAreRestoredFromTheirKeys(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"disk": "ssd"},
		Tolerations:  []corev1.Toleration{{Key: "soft", Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 7, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}},
		}}}},
	}}
	traits := []string{
		"", `{"labels":{"disk":"ssd"}}`, `{"labels":{"disk":"ssd","zone":"a"},"taints":[{"key":"hard","effect":"NoSchedule"}]}`,
		`{"labels":{"disk":"ssd","zone":"b"},"soft":[{"key":"soft","effect":"PreferNoSchedule"},{"key":"other","effect":"PreferNoSchedule"}]}`,
	}
	selector, err := newSelector(criteria{NodeSelector: pod.Spec.NodeSelector, Tolerations: pod.Spec.Tolerations, Resource: "nvidia.com/gpu"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []*Selector{selector, selector.withoutResource()} {
		got, err := SelectorOf(want.Key())
		if err != nil {
			t.Fatal(err)
		}
		if got.Key() != want.Key() || got.GPUResource() != want.GPUResource() {
			t.Errorf("the key is %q, want %q", got.Key(), want.Key())
		}
		for _, text := range traits {
			if got.Admits(text) != want.Admits(text) {
				t.Errorf("%s: %v, want %v", text, got.Admits(text), want.Admits(text))
			}
		}
	}
	want, err := newPreference(pod)
	if err != nil {
		t.Fatal(err)
	}
	got, err := PreferenceOf(want.Key())
	if err != nil || got.Key() != want.Key() {
		t.Fatalf("error %v", err)
	}
	for _, text := range traits {
		if got.Score(text) != want.Score(text) {
			t.Errorf("%s: %g, want %g", text, got.Score(text), want.Score(text))
		}
	}
	if _, err := SelectorOf("}"); err == nil {
		t.Error("a broken selector is no error")
	}
	if _, err := PreferenceOf("}"); err == nil {
		t.Error("a broken preference is no error")
	}
}
