// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package disruption

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Two Pods of a budget that allows three evictions are being evicted.
func TestEvictionsCountUntilTheStatusShowsThem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		do func(*Pending)
		// shown is what the status says afterwards.
		shown int32
		after time.Duration
		want  int
	}{
		"neither is deleted":                        {func(*Pending) {}, 3, time.Hour, 1},
		"neither is deleted, and the status drops":  {func(*Pending) {}, 2, time.Hour, 0},
		"one is deleted":                            {func(p *Pending) { p.Deleted("a", now) }, 3, time.Second, 1},
		"one is deleted, and the status shows it":   {func(p *Pending) { p.Deleted("a", now) }, 2, time.Second, 1},
		"both are deleted, and the status shows it": {func(p *Pending) { p.Deleted("b", now); p.Deleted("a", now) }, 1, time.Second, 1},
		"both are deleted, and replaced later":      {func(p *Pending) { p.Deleted("a", now); p.Deleted("b", now) }, 3, settleTime, 3},
		"one is not evicted after all":              {func(p *Pending) { p.Cancel([]types.UID{"a"}) }, 3, time.Second, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pending Pending
			pods := []*corev1.Pod{newPod("a", "train"), newPod("b", "train"), newPod("c", "serve")}
			for _, pod := range pods {
				pod.UID = types.UID(pod.Name)
			}
			pending.Add(NewBudgets([]*policyv1.PodDisruptionBudget{newBudget("guard", 3, app("train"))}), pods)
			test.do(&pending)
			budgets := NewBudgets([]*policyv1.PodDisruptionBudget{newBudget("guard", test.shown, app("train"))})
			pending.Subtract(budgets, now.Add(test.after))
			if got := budgets.Allowed()["default/guard"]; got != test.want {
				t.Errorf("%d evictions are allowed, want %d", got, test.want)
			}
		})
	}
}

// The API server shows that one Pod of two was deleted, of which the cache does not know yet. Each counts once for
// both.
func TestEvictionsThatOnlyTheAPIServerShowsCountOnce(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	guard := func(allowed int32) *Budgets {
		return NewBudgets([]*policyv1.PodDisruptionBudget{newBudget("guard", allowed, app("train"))})
	}
	var pending Pending
	var pods []*corev1.Pod
	for _, name := range []string{"deleted", "asked-for", "other"} {
		pod := newPod(name, "train")
		pod.UID = types.UID(name)
		pods = append(pods, pod)
	}
	cached, live := guard(5), guard(4)
	pending.Add(cached, pods)
	pending.Deleted("deleted", now)
	pending.SubtractOthers(live, []types.UID{"asked-for"}, now)
	if got := live.Allowed()["default/guard"]; got != 3 {
		t.Errorf("beside the others %d evictions are allowed, want 3", got)
	}
	if pending.Subtract(cached, now); cached.Allowed()["default/guard"] != 2 {
		t.Errorf("as far as the cache knows, %d evictions are allowed, want 2", cached.Allowed()["default/guard"])
	}
}

func TestTheEvictionsOfABudgetThatIsGoneAreForgotten(t *testing.T) {
	t.Parallel()
	var pending Pending
	pending.Add(NewBudgets([]*policyv1.PodDisruptionBudget{newBudget("guard", 3, app("train"))}), []*corev1.Pod{newPod("a", "train")})
	pending.Subtract(NewBudgets(nil), time.Time{})
	if len(pending.accounts) > 0 {
		t.Errorf("left are %+v", pending.accounts)
	}
}
