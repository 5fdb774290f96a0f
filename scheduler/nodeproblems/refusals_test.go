// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeproblems

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var beginning = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ofPod is the refusal of a Pod of a task, after so much time.
func ofPod(namespace, task string, after time.Duration) refusal {
	return refusal{Namespace: namespace, Task: types.UID(task), At: beginning.Add(after)}
}

func TestWhenANodeIsTheLastChoice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		refusals []refusal
		started  string // the namespace of a Pod that starts there then
		want     *verdict
		// own is whether it is the last choice for namespace a, others for others.
		own, others bool
	}{
		"not for one task alone": {
			refusals: []refusal{ofPod("a", "1", 0), ofPod("a", "1", time.Minute), ofPod("a", "1", 2*time.Minute), ofPod("a", "1", 3*time.Minute)},
		},
		"not for two Pods": {
			refusals: []refusal{ofPod("a", "1", 0), ofPod("b", "2", 0)},
		},
		"not for refusals far apart": {
			refusals: []refusal{ofPod("a", "1", 0), ofPod("b", "2", 3*time.Minute), ofPod("b", "2", 6*time.Minute)},
		},
		"for the namespace whose tasks it refuses, and not for others": {
			refusals: []refusal{ofPod("a", "1", 0), ofPod("a", "2", time.Minute), ofPod("a", "2", 2*time.Minute)},
			want:     &verdict{Pods: 3, Tasks: 2, Namespace: "a", Until: beginning.Add(2*time.Minute + shortestAvoidance)},
			own:      true,
		},
		"for all if it refuses tasks of several namespaces": {
			refusals: []refusal{ofPod("a", "1", 0), ofPod("b", "2", time.Minute), ofPod("b", "2", 2*time.Minute)},
			want:     &verdict{Pods: 3, Tasks: 2, Until: beginning.Add(2*time.Minute + shortestAvoidance)},
			own:      true, others: true,
		},
		"not once a Pod has started there": {
			refusals: []refusal{ofPod("a", "1", 0), ofPod("b", "2", time.Minute), ofPod("b", "2", 2*time.Minute)},
			started:  "c",
			want:     &verdict{Pods: 3, Tasks: 2, Until: beginning.Add(2*time.Minute + shortestAvoidance)},
		},
		"for a namespace also if Pods of others start there": {
			refusals: []refusal{ofPod("a", "1", 0), ofPod("a", "2", time.Minute), ofPod("a", "2", 2*time.Minute)},
			started:  "c",
			want:     &verdict{Pods: 3, Tasks: 2, Namespace: "a", Until: beginning.Add(2*time.Minute + shortestAvoidance)},
			own:      true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m refusals
			var found *verdict
			for _, one := range tc.refusals {
				found = m.record("node", one)
			}
			if diff := cmp.Diff(tc.want, found); diff != "" {
				t.Errorf("unexpected verdict (-want +got):\n%s", diff)
			}
			if tc.started != "" {
				m.started("node", tc.started)
			}
			now := tc.refusals[len(tc.refusals)-1].At.Add(shortestAvoidance - time.Second)
			if own := len(m.nodes("a", now)) > 0; own != tc.own {
				t.Errorf("the last choice for the namespace: %t, want %t", own, tc.own)
			}
			if others := len(m.nodes("other", now)) > 0; others != tc.others {
				t.Errorf("the last choice for others: %t, want %t", others, tc.others)
			}
			if nodes := m.nodes("a", now.Add(time.Second)); len(nodes) > 0 {
				t.Errorf("still the last choice after %v: %v", shortestAvoidance, nodes)
			}
		})
	}
}

func TestANodeThatRefusesPodsAgainIsTheLastChoiceForLonger(t *testing.T) {
	t.Parallel()
	var m refusals
	at := time.Duration(0)
	for i, want := range []time.Duration{shortestAvoidance, 2 * shortestAvoidance, 4 * shortestAvoidance, 8 * shortestAvoidance, longestAvoidance, longestAvoidance} {
		m.record("node", ofPod("a", "1", at))
		m.record("node", ofPod("b", "2", at))
		found := m.record("node", ofPod("c", "3", at))
		if found == nil || found.Until != beginning.Add(at+want) {
			t.Fatalf("time %d: %+v, want until %v", i+1, found, beginning.Add(at+want))
		}
		at += want
	}
}

// Who may create Pods decides how many are refused, and in how many namespaces of their own.
func TestWhatIsRememberedIsBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	var m refusals
	for i := range 10_000 {
		m.record("node", ofPod(fmt.Sprint("namespace-", i%100), fmt.Sprint(i), time.Duration(i)*time.Millisecond))
	}
	for about, r := range m.byScope {
		if len(r.refusals) > maxRefusals {
			t.Errorf("%d refusals of %v are remembered, want at most %d", len(r.refusals), about, maxRefusals)
		}
	}
	m.nodes("", beginning.Add(2*time.Hour))
	if len(m.byScope) > 0 {
		t.Errorf("%d records are left after two hours", len(m.byScope))
	}
}
