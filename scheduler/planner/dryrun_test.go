// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func ofKind(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[kindLabel] = kind }
}

func keptAwayFrom(kind, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Affinity = awayFrom(kind, key) }
}

// A gang leaves for a Pod. One of its Pods holds the GPUs, the other one keeps the Pod off the
// node. As long as any of them is still there, nobody else leaves.
func TestNobodyElseIsPreemptedWhileThoseLeaveThatKeepAPodAway(t *testing.T) {
	t.Parallel()
	low, lower := prioritized(1), prioritized(3)
	holds := at(pod("holds", 2, in("g", 2, 0), low), "a")
	keepsAway := at(pod("keeps-away", 1, in("g", 2, 1), low, keptAwayFrom("c", corev1.LabelHostname)), "a")
	other := at(pod("other", 2, lower), "b")
	f := newFramed(t, []*corev1.Node{nodeWithGPUs("a", "3"), nodeWithGPUs("b", "2")}, []*corev1.Pod{holds, keepsAway, other})
	waiting := pod("waiting", 2, prioritized(5), ofKind("c"))
	f.comes(waiting)
	got, fits := f.wantVictims(waiting)
	if diff := cmp.Diff([]string{"holds", "keeps-away"}, got); diff != "" || !fits {
		t.Fatalf("it fits then: %t; victims (-want +got):\n%s", fits, diff)
	}
	f.registry.MarkTerminating([]types.UID{holds.UID, keepsAway.UID}, true)
	if got, fits := f.wantVictims(waiting); len(got) > 0 || !fits {
		t.Errorf("while both are leaving: it fits then: %t; victims %v, want no further one", fits, got)
	}
	f.podDeleted(holds)
	f.show([]*corev1.Pod{keepsAway, other})
	if got, fits := f.wantVictims(waiting); len(got) > 0 || !fits {
		t.Errorf("while the second one is leaving: it fits then: %t; victims %v, want no further one", fits, got)
	}
}
