// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPreferencesCountAsMuchAsTheyAreTolerated(t *testing.T) {
	t.Parallel()
	prefers := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}}},
			}}},
		}}
	}
	labelled := func(node *corev1.Node) { node.Labels["disk"] = "ssd" }
	discouraged := func(node *corev1.Node) {
		node.Spec.Taints = []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	tests := map[string]struct {
		wants func(*corev1.Pod)
		// a and b are changes of the nodes; full is true if a Pod runs on node a.
		a, b      func(*corev1.Node)
		full      bool
		tolerance float64
		want      string
	}{
		"a label is preferred among equal nodes":        {wants: prefers, b: labelled, want: "b"},
		"a taint advises against one of equal nodes":    {a: discouraged, want: "b"},
		"the fuller node is better than a label":        {wants: prefers, b: labelled, full: true, want: "a"},
		"the fuller node is better than one to avoid":   {a: discouraged, full: true, want: "a"},
		"a label is better than the fuller node":        {wants: prefers, b: labelled, full: true, tolerance: 0.1, want: "b"},
		"the fuller node is to be avoided":              {a: discouraged, full: true, tolerance: 0.1, want: "b"},
		"the fuller node, for a Pod that does not care": {b: labelled, full: true, tolerance: 0.1, want: "a"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.mirror.SetPreferenceTolerance(test.tolerance)
			for node, change := range map[string]func(*corev1.Node){"a": test.a, "b": test.b} {
				f.addNode(node, "l", 4)
				if change != nil {
					change(f.infos[node].Node())
				}
			}
			if test.full {
				f.comes(at(pod("runs", 1), "a", 0))
			}
			waiting := pod("waits", 1)
			if test.wants != nil {
				test.wants(waiting)
			}
			f.comes(waiting)
			if got := f.decide(waiting).Node; got != test.want {
				t.Errorf("it goes to %q, want %s", got, test.want)
			}
		})
	}
}
