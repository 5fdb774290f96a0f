// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestPodsThatAreOfNoUseAloneLeave(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pods []*corev1.Pod
		// meanwhile is what happens half-way.
		meanwhile func(*fixture)
		want      []string
	}{
		"too few run and others wait":    {pods: bindFirst(gangOf("train", 4, 3), 2), want: []string{"train-0", "train-1"}},
		"enough run, more wait":          {pods: bindFirst(gangOf("train", 4, 2), 2), want: []string{}},
		"too few run and none waits":     {pods: bindFirst(gangOf("train", 2, 3), 2), want: []string{}},
		"none runs":                      {pods: gangOf("train", 3, 3), want: []string{}},
		"a Pod that is alone":            {pods: []*corev1.Pod{onNode(pod("a"), "a")}, want: []string{}},
		"Pods that are leaving are left": {pods: append(bindFirst(gangOf("train", 3, 3), 1), ending(onNode(pod("z", in("train", 3, 9)), "a"))), want: []string{"train-0"}},
		"Pods that are to be preempted still run": {
			pods: bindFirst(gangOf("train", 4, 2), 3), want: []string{},
			meanwhile: func(f *fixture) {
				f.MarkTerminating([]types.UID{"train-1", "train-2"}, true)
				f.Partial(f.now(), nil)
				f.step(timing.Partial)
			},
		},
		"the others came in time": {pods: bindFirst(gangOf("train", 3, 3), 2), meanwhile: func(f *fixture) { f.Observe(onNode(pod("train-2", in("train", 3, 2)), "a")) }, want: []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, test.pods...)
			if got := f.Partial(f.now(), nil); len(got) > 0 {
				t.Errorf("at once: %v", namesOf(got))
			}
			f.step(timing.Partial / 2)
			if test.meanwhile != nil {
				test.meanwhile(f)
			}
			if got := f.Partial(f.now(), nil); len(got) > 0 {
				t.Errorf("half-way: %v", namesOf(got))
			}
			f.step(timing.Partial / 2)
			got := namesOf(f.Partial(f.now(), nil))
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("in the end (-want +got):\n%s", diff)
			}
			if again := f.Partial(f.now().Add(time.Second), nil); len(again) > 0 {
				t.Errorf("at once again: %v", namesOf(again))
			}
		})
	}
}

func TestPodsThatAreMovedAreOnTheirWay(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pods   []*corev1.Pod
		moving []string
		want   int
	}{
		"one waits for its new place":            {append(bindFirst(gangOf("train", 3, 3), 2), pod("other")), []string{"train-2"}, 0},
		"another gang's Pods are moved":          {bindFirst(gangOf("train", 3, 3), 2), []string{"other-2"}, 2},
		"one waits, another one leaves":          {append(bindFirst(gangOf("train", 3, 4), 2), ending(onNode(pod("z", in("train", 4, 3)), "a"))), []string{"train-2", "z"}, 0},
		"too few are moved":                      {append(bindFirst(gangOf("train", 3, 4), 2), ending(onNode(pod("z", in("train", 4, 3)), "a"))), []string{"z"}, 2},
		"Pods that have not left count once":     {bindFirst(gangOf("train", 3, 3), 1), []string{"train-0", "train-1"}, 1},
		"Pods to be moved that are still there":  {bindFirst(gangOf("train", 3, 3), 2), []string{"train-0", "train-1"}, 2},
		"the gang is large enough without those": {bindFirst(gangOf("train", 3, 2), 2), []string{"train-2"}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, moving := newFixture(t, test.pods...), map[string]bool{}
			for _, name := range test.moving {
				moving["default/"+name] = true
			}
			f.Partial(f.now(), moving)
			f.step(timing.Partial)
			if got := f.Partial(f.now(), moving); len(got) != test.want {
				t.Errorf("evicted: %v, want %d", namesOf(got), test.want)
			}
		})
	}
}

func TestATimeWithEnoughBeginsTheWaitAnew(t *testing.T) {
	t.Parallel()
	pods := bindFirst(gangOf("train", 3, 2), 1)
	f := newFixture(t, pods...)
	f.Partial(f.now(), nil)
	f.step(timing.Partial - time.Second)
	f.Observe(onNode(pods[1], "a"))
	f.Partial(f.now(), nil)
	f.Forget("train-1")
	f.step(2 * time.Second)
	if got := f.Partial(f.now(), nil); len(got) > 0 {
		t.Errorf("evicted: %v", namesOf(got))
	}
}

func TestGangsAreCountedByState(t *testing.T) {
	t.Parallel()
	f := newFixture(t, slices.Concat(gangOf("gathers", 1, 2), gangOf("waits", 2, 2), gangOf("planned", 2, 2), bindFirst(gangOf("runs", 2, 1), 1))...)
	f.seat(pod("planned-0"), 2)
	if diff := cmp.Diff(Counts{Gathering: 1, Waiting: 1, Planned: 1, Running: 1}, f.Count()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}
