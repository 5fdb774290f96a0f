// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestKubernetesPreemptionTakesOnlyWhatAGangCanSpare(t *testing.T) {
	t.Parallel()
	member := func(name string, minimum, index int, options ...func(*corev1.Pod)) *corev1.Pod {
		return pod(name, 1, append(options, in("g", minimum, index))...)
	}
	tests := map[string]struct {
		// the first ones are on node a, the last one on node b.
		running []*corev1.Pod
		want    []string
	}{
		"none of a gang at its minimum": {[]*corev1.Pod{member("g-0", 3, 0), member("g-1", 3, 1), member("g-2", 3, 2)}, nil},
		"one above the minimum":         {[]*corev1.Pod{member("g-0", 2, 0), member("g-1", 2, 1), member("g-2", 2, 2)}, []string{"g-0"}},
		"the less important of both":    {[]*corev1.Pod{member("g-0", 2, 0), member("g-1", 2, 1, later(1)), member("g-2", 2, 2)}, []string{"g-1"}},
		"all that can be spared":        {[]*corev1.Pod{member("g-0", 1, 0), member("g-1", 1, 1), member("g-2", 1, 2)}, []string{"g-0", "g-1"}},
		"those that leave anyway":       {[]*corev1.Pod{member("g-0", 2, 0, leavingNow), member("g-1", 2, 1), member("g-2", 2, 2)}, []string{"g-0"}},
		"Pods in no gang":               {[]*corev1.Pod{pod("x", 1), pod("web", 0), member("g-2", 1, 2)}, []string{"web", "x"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 2)
			f.addNode("b", "l", 1)
			f.comes(at(test.running[0], "a"), at(test.running[1], "a"), at(test.running[2], "b", 0))
			var got []string
			for _, one := range f.infos["a"].GetPods() {
				if f.MayLeave(f.infos["a"], one.GetPod()) {
					got = append(got, one.GetPod().Name)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("those that may leave (-want +got):\n%s", diff)
			}
		})
	}
}
