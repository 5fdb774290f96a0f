// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// guarantees returns the quotas of a queue that is guaranteed something: "*", 8, "h100", 4.
func guarantees(of ...any) map[string]queueing.Quota {
	quotas := map[string]queueing.Quota{}
	for i := 0; i < len(of); i += 2 {
		quotas[of[i].(string)] = queueing.Quota{Guaranteed: queueing.Amount(of[i+1].(int)) * queueing.GPU, Limit: queueing.Unlimited}
	}
	return quotas
}

func gpus(count int) queueing.Amount { return queueing.Amount(count) * queueing.GPU }

func TestProblemsOfTheTreeAreExplainedAndContained(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		queues []queueing.Queue
		// problems are the reasons by queue, guaranteed the GPUs by "queue model" that differ from
		// what is asked for.
		problems map[string]queueing.Reason
		messages map[string]string
		want     map[string]int
	}{
		"a tree without mistakes keeps its guarantees": {
			queues: []queueing.Queue{
				{Name: "org", Quotas: guarantees("*", 16, "h100", 8)},
				{Name: "a", Parent: "org", Quotas: guarantees("h100", 8)},
				{Name: "b", Parent: "org", Quotas: guarantees("*", 8)},
			},
			want: map[string]int{"org *": 16, "org h100": 8, "a h100": 8, "a *": 8, "b *": 8, "b h100": 0},
		},
		"an unknown parent makes a queue a root without guarantee": {
			queues: []queueing.Queue{
				{Name: "a", Parent: "nobody", Quotas: guarantees("*", 8)},
				{Name: "a1", Parent: "a", Quotas: guarantees("*", 8)},
			},
			problems: map[string]queueing.Reason{"a": queueing.ParentNotFound, "a1": queueing.GuaranteeExceedsParent},
			messages: map[string]string{"a": `there is no GPUQueue "nobody": create it, or change spec.parent of a.`},
			want:     map[string]int{"a *": 0, "a1 *": 0},
		},
		"all queues of a cycle are roots without guarantee, and what hangs on it is a child": {
			queues: []queueing.Queue{
				{Name: "a", Parent: "c", Quotas: guarantees("*", 8)}, {Name: "b", Parent: "a"}, {Name: "c", Parent: "b"},
				{Name: "below", Parent: "c"}, {Name: "self", Parent: "self"},
			},
			problems: map[string]queueing.Reason{
				"a": queueing.ParentCycle, "b": queueing.ParentCycle, "c": queueing.ParentCycle, "self": queueing.ParentCycle,
			},
			messages: map[string]string{"a": "a is its own ancestor (a → c → b → a)", "self": "self is its own ancestor (self → self)"},
			want:     map[string]int{"a *": 0},
		},
		"children that are guaranteed too much get their part": {
			queues: []queueing.Queue{
				{Name: "org", Quotas: guarantees("h100", 8)},
				{Name: "a", Parent: "org", Quotas: guarantees("h100", 12)},
				{Name: "b", Parent: "org", Quotas: guarantees("h100", 4)},
				{Name: "idle", Parent: "org"},
			},
			problems: map[string]queueing.Reason{"a": queueing.GuaranteeExceedsParent, "b": queueing.GuaranteeExceedsParent},
			messages: map[string]string{"a": "the children of org are guaranteed 16 h100 together, but org only 8: raise the guarantee of org, or lower those of its children."},
			want:     map[string]int{"a h100": 6, "b h100": 2, "a *": 6, "b *": 2},
		},
		"a guarantee of any model is none of a particular one": {
			queues: []queueing.Queue{
				{Name: "org", Quotas: guarantees("*", 8)},
				{Name: "a", Parent: "org", Quotas: guarantees("h100", 4)},
			},
			problems: map[string]queueing.Reason{"a": queueing.GuaranteeExceedsParent},
			want:     map[string]int{"a h100": 0, "a *": 4},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := queueing.NewTree(tc.queues)
			for _, queue := range tree.Queues() {
				problem := tree.Problem(queue)
				if got := reasonOf(problem); got != tc.problems[queue] {
					t.Errorf("queue %s: reason %q, want %q", queue, got, tc.problems[queue])
				}
				if part := tc.messages[queue]; part != "" && (problem == nil || !strings.Contains(problem.Message, part)) {
					t.Errorf("queue %s: %v does not say %q", queue, problem, part)
				}
			}
			for key, want := range tc.want {
				queue, model, _ := strings.Cut(key, " ")
				if got := tree.Guaranteed(queue, model); got != gpus(want) {
					t.Errorf("%s: guaranteed %s, want %d", key, got, want)
				}
			}
		})
	}
}

func reasonOf(problem *queueing.Problem) queueing.Reason {
	if problem == nil {
		return ""
	}
	return problem.Reason
}

func TestALongCycleIsShortened(t *testing.T) {
	t.Parallel()
	var queues []queueing.Queue
	for i := range 500 {
		queues = append(queues, queueing.Queue{Name: fmt.Sprintf("q%d", i), Parent: fmt.Sprintf("q%d", (i+1)%500)})
	}
	problem := queueing.NewTree(queues).Problem("q0")
	if problem == nil || !strings.Contains(problem.Message, "(q0 → q1 → q2 → q3 → q4 → … → q499 → q0)") {
		t.Errorf("unexpected problem: %v", problem)
	}
}

func TestQueuesInheritFromTheirParents(t *testing.T) {
	t.Parallel()
	reclaim := queueing.Reclaim{Policy: queueing.ReclaimNever}
	tree := queueing.NewTree([]queueing.Queue{
		{Name: "org", Priorities: []string{"low"}, MaxRuntime: time.Hour, DefaultRuntime: 2 * time.Hour, Reclaim: &reclaim},
		{Name: "own", Parent: "org", Priorities: []string{"high"}, MaxRuntime: 2 * time.Hour, DefaultRuntime: time.Minute, Reclaim: &queueing.Reclaim{Policy: queueing.ReclaimAny}},
		{Name: "inherits", Parent: "org"},
		{Name: "bounded", MaxRuntime: 3 * time.Hour},
		{Name: "bare"},
	})
	tests := map[string]struct {
		priorities         []string
		most, defaultValue time.Duration
		reclaim            queueing.Reclaim
	}{
		"own":            {[]string{"high"}, time.Hour, time.Minute, queueing.Reclaim{Policy: queueing.ReclaimAny}},
		"inherits":       {[]string{"low"}, time.Hour, time.Hour, reclaim},
		"bounded":        {nil, 3 * time.Hour, 3 * time.Hour, queueing.Reclaim{Policy: queueing.ReclaimAny, Notice: time.Minute}},
		"bare":           {nil, 0, 0, queueing.Reclaim{Policy: queueing.ReclaimAny, Notice: time.Minute}},
		"does not exist": {nil, 0, 0, queueing.Reclaim{Policy: queueing.ReclaimLowerPriority}},
	}
	for queue, want := range tests {
		t.Run(queue, func(t *testing.T) {
			t.Parallel()
			if got := tree.Priorities(queue); !slices.Equal(got, want.priorities) {
				t.Errorf("priorities %v, want %v", got, want.priorities)
			}
			if most, defaultValue := tree.MaxRuntime(queue), tree.DefaultRuntime(queue); most != want.most || defaultValue != want.defaultValue {
				t.Errorf("runtimes %v and %v, want %v and %v", most, defaultValue, want.most, want.defaultValue)
			}
			if got := tree.Reclaim(queue); got != want.reclaim {
				t.Errorf("reclaim %v, want %v", got, want.reclaim)
			}
		})
	}
}

func TestSiblingsDecideBetweenQueues(t *testing.T) {
	t.Parallel()
	tree := queueing.NewTree([]queueing.Queue{
		{Name: "org"}, {Name: "a", Parent: "org"}, {Name: "a1", Parent: "a"}, {Name: "a2", Parent: "a"}, {Name: "b", Parent: "org"}, {Name: "other"},
	})
	for of, want := range map[[2]string][2]string{
		{"a1", "a2"}: {"a1", "a2"}, {"a1", "b"}: {"a", "b"}, {"b", "a1"}: {"b", "a"}, {"a1", "other"}: {"org", "other"}, {"a1", "a"}: {"a1", ""},
		{"org", "a2"}: {"", "a"}, {"a", "a"}: {"", ""}, {"gone", "b"}: {"", "org"},
	} {
		if x, y := tree.Fork(of[0], of[1]); x != want[0] || y != want[1] {
			t.Errorf("%v: %q and %q decide, want %q", of, x, y, want)
		}
	}
}

// TestGuaranteesNeverExceedTheParents: whatever is asked for, siblings never have more together
// than their parent, and a queue never has more of single models than of all.
func TestGuaranteesNeverExceedTheParents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		queues := randomQueues(rand.New(rand.NewPCG(seed, 1)), 12)
		tree := queueing.NewTree(queues)
		if got := len(tree.Queues()); got != len(queues) {
			t.Fatalf("seed %d: %d queues, want %d", seed, got, len(queues))
		}
		sums := map[string]queueing.Amount{}
		for _, queue := range tree.Queues() {
			path := tree.Path(queue)
			models := queueing.Amount(0)
			for _, model := range randomModels {
				guaranteed := tree.Guaranteed(queue, model)
				if model != queueing.AnyModel {
					models += guaranteed
				}
				if len(path) > 1 {
					sums[path[1]+" "+model] += guaranteed
				}
			}
			if all := tree.Guaranteed(queue, queueing.AnyModel); models > all {
				t.Fatalf("seed %d: %s is guaranteed %s of single models and %s of all", seed, queue, models, all)
			}
		}
		for key, sum := range sums {
			parent, model, _ := strings.Cut(key, " ")
			if guaranteed := tree.Guaranteed(parent, model); sum > guaranteed {
				t.Fatalf("seed %d: the children of %s are guaranteed %s of %s, it is itself %s", seed, parent, sum, model, guaranteed)
			}
		}
	}
}

var randomModels = []string{"h100", "a100", queueing.AnyModel}

// randomQueues returns queues with random parents, some of which don't exist or form cycles.
func randomQueues(random *rand.Rand, count int) []queueing.Queue {
	queues := make([]queueing.Queue, count)
	for i := range queues {
		q := queueing.Queue{Name: fmt.Sprintf("q%d", i), Weight: random.IntN(4), Quotas: map[string]queueing.Quota{}}
		switch random.IntN(8) {
		case 0:
			q.Parent = fmt.Sprintf("q%d", random.IntN(count+1)) // perhaps a cycle, perhaps unknown
		case 1, 2, 3, 4, 5:
			if i > 0 {
				q.Parent = fmt.Sprintf("q%d", random.IntN(i))
			}
		}
		for _, model := range randomModels {
			quota := queueing.Quota{Guaranteed: queueing.Amount(random.IntN(1200)), Limit: queueing.Unlimited}
			if random.IntN(2) == 0 {
				quota.Limit = quota.Guaranteed + queueing.Amount(random.IntN(1200))
			}
			if random.IntN(3) > 0 {
				q.Quotas[model] = quota
			}
		}
		queues[i] = q
	}
	return queues
}
