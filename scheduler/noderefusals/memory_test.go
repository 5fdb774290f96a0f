// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package noderefusals

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var beginning = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// refusal is that of a Pod of a task, after so much time.
func refusal(namespace, task string, after time.Duration) Refusal {
	return Refusal{Namespace: namespace, Task: types.UID(task), At: beginning.Add(after)}
}

func TestWhenANodeIsTheLastChoice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		refusals []Refusal
		started  string // the namespace of a Pod that starts there then
		want     *Verdict
		// own is whether it is the last choice for namespace a, others for others.
		own, others bool
	}{
		"not for one task alone": {
			refusals: []Refusal{refusal("a", "1", 0), refusal("a", "1", time.Minute), refusal("a", "1", 2*time.Minute), refusal("a", "1", 3*time.Minute)},
		},
		"not for two Pods": {
			refusals: []Refusal{refusal("a", "1", 0), refusal("b", "2", 0)},
		},
		"not for refusals far apart": {
			refusals: []Refusal{refusal("a", "1", 0), refusal("b", "2", 3*time.Minute), refusal("b", "2", 6*time.Minute)},
		},
		"for the namespace whose tasks it refuses, and not for others": {
			refusals: []Refusal{refusal("a", "1", 0), refusal("a", "2", time.Minute), refusal("a", "2", 2*time.Minute)},
			want:     &Verdict{Pods: 3, Tasks: 2, Namespace: "a", Until: beginning.Add(2*time.Minute + shortest)},
			own:      true,
		},
		"for all if it refuses tasks of several namespaces": {
			refusals: []Refusal{refusal("a", "1", 0), refusal("b", "2", time.Minute), refusal("b", "2", 2*time.Minute)},
			want:     &Verdict{Pods: 3, Tasks: 2, Until: beginning.Add(2*time.Minute + shortest)},
			own:      true, others: true,
		},
		"not once a Pod has started there": {
			refusals: []Refusal{refusal("a", "1", 0), refusal("b", "2", time.Minute), refusal("b", "2", 2*time.Minute)},
			started:  "c",
			want:     &Verdict{Pods: 3, Tasks: 2, Until: beginning.Add(2*time.Minute + shortest)},
		},
		"for a namespace also if Pods of others start there": {
			refusals: []Refusal{refusal("a", "1", 0), refusal("a", "2", time.Minute), refusal("a", "2", 2*time.Minute)},
			started:  "c",
			want:     &Verdict{Pods: 3, Tasks: 2, Namespace: "a", Until: beginning.Add(2*time.Minute + shortest)},
			own:      true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var m Memory
			var verdict *Verdict
			for _, one := range tc.refusals {
				verdict = m.Add("node", one)
			}
			if diff := cmp.Diff(tc.want, verdict); diff != "" {
				t.Errorf("unexpected verdict (-want +got):\n%s", diff)
			}
			if tc.started != "" {
				m.Started("node", tc.started)
			}
			now := tc.refusals[len(tc.refusals)-1].At.Add(shortest - time.Second)
			if own := len(m.LastChoices("a", now)) > 0; own != tc.own {
				t.Errorf("the last choice for the namespace: %t, want %t", own, tc.own)
			}
			if others := len(m.LastChoices("other", now)) > 0; others != tc.others {
				t.Errorf("the last choice for others: %t, want %t", others, tc.others)
			}
			if nodes := m.LastChoices("a", now.Add(time.Second)); len(nodes) > 0 {
				t.Errorf("still the last choice after %v: %v", shortest, nodes)
			}
		})
	}
}

func TestANodeThatRefusesPodsAgainIsTheLastChoiceForLonger(t *testing.T) {
	t.Parallel()
	var m Memory
	at := time.Duration(0)
	for i, want := range []time.Duration{shortest, 2 * shortest, 4 * shortest, 8 * shortest, longest, longest} {
		m.Add("node", refusal("a", "1", at))
		m.Add("node", refusal("b", "2", at))
		verdict := m.Add("node", refusal("c", "3", at))
		if verdict == nil || verdict.Until != beginning.Add(at+want) {
			t.Fatalf("time %d: %+v, want until %v", i+1, verdict, beginning.Add(at+want))
		}
		at += want
	}
}

// Who may create Pods decides how many are refused, and in how many namespaces of their own.
func TestWhatIsRememberedIsBoundedAndForgotten(t *testing.T) {
	t.Parallel()
	var m Memory
	for i := range 10_000 {
		m.Add("node", refusal(fmt.Sprint("namespace-", i%100), fmt.Sprint(i), time.Duration(i)*time.Millisecond))
	}
	for about, r := range m.known {
		if len(r.refusals) > maxRefusals {
			t.Errorf("%d refusals of %v are remembered, want at most %d", len(r.refusals), about, maxRefusals)
		}
	}
	m.LastChoices("", beginning.Add(2*time.Hour))
	if len(m.known) > 0 {
		t.Errorf("%d records are left after two hours", len(m.known))
	}
}
