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
				if f.evictor.MayLeave(f.infos["a"], one.GetPod(), pod("urgent", 0, prioritized(1000))) {
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

func TestCriticalSystemPodsMakeGangsLeaveAsAWhole(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		minimum int
		victims []int
		others  []string
	}{
		"a gang at its minimum":               {3, []int{0}, []string{"g-1", "g-2"}},
		"two of a gang at its minimum":        {3, []int{0, 1}, []string{"g-2"}},
		"one that the gang can spare":         {2, []int{0}, nil},
		"one more than the gang can spare":    {2, []int{0, 1}, []string{"g-2"}},
		"a gang that has lost a Pod already":  {4, []int{1}, []string{"g-0", "g-2"}},
		"Pods of a gang with a minimum of 1":  {1, []int{0, 1}, nil},
		"all of a gang, so that nobody stays": {3, []int{0, 1, 2}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addNode("a", "l", 3)
			members := gang("g", 3, test.minimum)
			for i := range members {
				members[i] = at(members[i], "a", i)
			}
			f.comes(members...)
			daemon := pod("daemon", 0, prioritized(2_000_001_000))
			var victims []*corev1.Pod
			for _, i := range test.victims {
				if !f.evictor.MayLeave(f.infos["a"], members[i], daemon) {
					t.Errorf("%s may not leave", members[i].Name)
				}
				victims = append(victims, members[i])
			}
			var others []string
			for _, other := range f.evictor.Break(victims) {
				others = append(others, other.Name)
			}
			slices.Sort(others)
			if diff := cmp.Diff(test.others, others); diff != "" {
				t.Errorf("those that leave with the victims (-want +got):\n%s", diff)
			}
			if again := f.evictor.Break(victims); again != nil {
				t.Errorf("%d Pods leave again with the next victim", len(again))
			}
		})
	}
}
