// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestWhoHasToLeaveBecauseFiltersRefuseTheGang(t *testing.T) {
	t.Parallel()
	low, lower, high := prioritized(1), prioritized(3), prioritized(9)
	away := keptAwayFrom("c", corev1.LabelHostname)
	one := []*corev1.Pod{pod("one", 1, prioritized(5), withHostPort, ofKind("c"))}
	tests := map[string]struct {
		// nodes a and b have three GPUs each.
		running []*corev1.Pod
		budgets map[string]int32
		waiting []*corev1.Pod
		want    []string
		fits    bool
	}{
		"the one with the port, although GPUs are free": {
			running: []*corev1.Pod{at(pod("x", 1, low, withHostPort), "a"), at(pod("y", 1, high, withHostPort), "b")},
			waiting: one, want: []string{"x"}, fits: true,
		},
		"one that has no GPUs": {
			running: []*corev1.Pod{at(pod("x", 0, low, away), "a"), at(pod("y", 3, high), "b")},
			waiting: one, want: []string{"x"}, fits: true,
		},
		"one that has the GPUs and one that keeps it away": {
			running: []*corev1.Pod{at(pod("x", 3, low), "a"), at(pod("z", 0, low, away), "a"), at(pod("y", 3, high), "b")},
			waiting: one, want: []string{"x", "z"}, fits: true,
		},
		"the least important one": {
			running: []*corev1.Pod{at(pod("x", 1, lower, withHostPort), "a"), at(pod("y", 1, low, withHostPort), "b")},
			waiting: one, want: []string{"y"}, fits: true,
		},
		"one on each node": {
			running: []*corev1.Pod{
				at(pod("x", 1, low, withHostPort), "a"), at(pod("v", 1, low), "a"), at(pod("y", 1, low, withHostPort), "b"), at(pod("w", 1, lower), "b"),
			},
			waiting: gang("train", 2, 2, prioritized(5), withHostPort), want: []string{"x", "y"}, fits: true,
		},
		"none, if one that stays refuses it as well": {
			running: []*corev1.Pod{
				at(pod("x", 1, low, withHostPort), "a"), at(pod("z", 0, high, away), "a"), at(pod("y", 1, high, withHostPort), "b"),
			},
			waiting: one,
		},
		"a gang as a whole": {
			running: []*corev1.Pod{
				at(pod("g-0", 1, in("g", 2, 0), low, withHostPort), "a"), at(pod("g-1", 1, in("g", 2, 1), low), "b"), at(pod("y", 1, high, withHostPort), "b"),
			},
			waiting: one, want: []string{"g-0", "g-1"}, fits: true,
		},
		"only the one above a gang's minimum": {
			running: []*corev1.Pod{
				at(pod("g-0", 1, in("g", 1, 0), low, withHostPort), "a"), at(pod("g-1", 1, in("g", 1, 1), low), "b"), at(pod("y", 1, high, withHostPort), "b"),
			},
			waiting: one, want: []string{"g-0"}, fits: true,
		},
		"no gang of which one is higher": {
			running: []*corev1.Pod{
				at(pod("g-0", 1, in("g", 2, 0), low, withHostPort), "a"), at(pod("g-1", 1, in("g", 2, 1), high, withHostPort), "b"),
			},
			waiting: one,
		},
		"none whose budget is spent": {
			running: []*corev1.Pod{at(pod("x", 1, low, withHostPort, app("web")), "a"), at(pod("y", 1, lower, withHostPort), "b")},
			budgets: map[string]int32{"web": 0}, waiting: one, want: []string{"y"}, fits: true,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFramed(t, []*corev1.Node{nodeWithGPUs("a", "3"), nodeWithGPUs("b", "3")}, test.running)
			for name, allowed := range test.budgets {
				f.budget(name, allowed)
			}
			f.comes(test.waiting...)
			got, fits := f.wantVictims(test.waiting[0])
			if diff := cmp.Diff(test.want, got); diff != "" || fits != test.fits {
				t.Errorf("it fits then %t, want %t; victims (-want +got):\n%s", fits, test.fits, diff)
			}
		})
	}
}
