// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestWhatWouldNeverFitIsTriedAgainWhenNodesChange has a Pod that is too large for the only node, and one that has to
// wait for another one there to end.
func TestWhatWouldNeverFitIsTriedAgainWhenNodesChange(t *testing.T) {
	t.Parallel()
	newNode := func(f *fixture) {
		f.addNode("b", "l", 4)
		f.nodeUpdated(nil, f.infos["b"].Node())
	}
	tests := map[string]struct {
		happens func(f *fixture, running *corev1.Pod)
		want    []string
	}{
		"nothing happens": {func(*fixture, *corev1.Pod) {}, nil},
		"a Pod ends":      {func(f *fixture, running *corev1.Pod) { f.goes(running) }, []string{"waits"}},
		"a node changes": {func(f *fixture, _ *corev1.Pod) {
			f.change("a", func(n *corev1.Node) { n.Labels["changed"] = "yes" })
		}, []string{"large", "waits"}},
		"a node comes": {func(f *fixture, _ *corev1.Pod) { newNode(f) }, []string{"large", "waits"}},
		"a node has come before the last attempt, and then a Pod ends": {func(f *fixture, _ *corev1.Pod) {
			newNode(f)
			other := at(pod("other", 2), "b", 0, 1)
			f.comes(other)
			f.due(cacheLag)
			// The message of the attempt before is still good, and what it says of empty nodes is not.
			if decision := f.decide(f.registry.Member("large").Pod()); decision.Node != "" {
				f.t.Fatalf("it fits: %+v", decision)
			}
			f.clock.Step(shortestPause)
			f.goes(other)
		}, []string{"large"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 2)
			running := at(pod("running", 1), "a", 0)
			large, waits := pod("large", 3), pod("waits", 2)
			f.comes(running, large, waits)
			for _, p := range []*corev1.Pod{large, waits} {
				if decision := f.decide(p); decision.Node != "" {
					t.Fatalf("it fits: %+v", decision)
				}
			}
			f.clock.Step(shortestPause)
			test.happens(f, running)
			got := f.due(cacheLag)
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("due are %v, want %v", got, test.want)
			}
		})
	}
}
