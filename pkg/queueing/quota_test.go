// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

// held are GPUs in a ledger, by "queue model".
type held map[string]int

func ledger(queues []queueing.Queue, holds held) *queueing.Ledger {
	l := queueing.NewLedger(queueing.NewTree(queues))
	for key, count := range holds {
		queue, model, _ := strings.Cut(key, " ")
		l.Add(queue, model, gpus(count))
	}
	return l
}

func limits(of ...any) map[string]queueing.Quota {
	quotas := map[string]queueing.Quota{}
	for i := 0; i < len(of); i += 2 {
		quotas[of[i].(string)] = queueing.Quota{Limit: gpus(of[i+1].(int))}
	}
	return quotas
}

func TestAmountsAreWrittenAsInATask(t *testing.T) {
	t.Parallel()
	for amount, want := range map[queueing.Amount]string{0: "0", 50: "0.5", 1: "0.01", 100: "1", 1250: "12.5", 800: "8"} {
		if got := amount.String(); got != want {
			t.Errorf("%d: %s, want %s", int64(amount), got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	queues := []queueing.Queue{
		{Name: "org", Quotas: limits("*", 16)},
		{Name: "a", Parent: "org", Quotas: limits("h100", 4, "*", 12)},
		{Name: "b", Parent: "org"},
	}
	tests := map[string]struct {
		holds   held
		queue   string
		request queueing.Amounts
		want    string // empty: it fits
	}{
		"within all limits":                              {held{"a h100": 2}, "a", queueing.Amounts{"h100": gpus(2)}, ""},
		"over the limit of the model":                    {held{"a h100": 2}, "a", queueing.Amounts{"h100": gpus(3)}, "queue a holds 2 of at most 4 h100, and 3 are asked for"},
		"over the limit of all models":                   {held{"a h100": 2, "a a100": 8}, "a", queueing.Amounts{"a100": gpus(3)}, "queue a holds 10 of at most 12 GPUs, and 3 are asked for"},
		"over the limit of the parent, because of both":  {held{"a a100": 8, "b a100": 6}, "a", queueing.Amounts{"a100": gpus(4)}, "queue org holds 14 of at most 16 GPUs, and 4 are asked for"},
		"over a limit that the queue can never be below": {held{"a h100": 4}, "a", queueing.Amounts{"h100": gpus(5)}, "queue a may hold 4 h100 at most, and 5 are asked for"},
		"never below the parent's comes first":           {held{"b h100": 16}, "b", queueing.Amounts{"h100": gpus(17)}, "queue org may hold 16 GPUs at most, and 17 are asked for"},
		"two models of one gang add up":                  {held{"a a100": 8}, "a", queueing.Amounts{"h100": gpus(2), "a100": gpus(3)}, "queue a holds 8 of at most 12 GPUs, and 5 are asked for"},
		"any model counts together with all":             {held{"a a100": 8}, "a", queueing.Amounts{"*": gpus(5)}, "queue a holds 8 of at most 12 GPUs, and 5 are asked for"},
		"a share of a card counts as a share":            {held{"a h100": 4}, "a", queueing.Amounts{"h100": 50}, "queue a holds 4 of at most 4 h100, and 0.5 are asked for"},
		"no queue has no limits":                         {held{" h100": 400}, "", queueing.Amounts{"h100": gpus(500)}, ""},
		"a queue that does not exist has no limits":      {held{"gone h100": 400}, "gone", queueing.Amounts{"h100": gpus(500)}, ""},
		"what is beyond its limits gets nothing more":    {held{"a h100": 8}, "a", queueing.Amounts{"h100": gpus(1)}, "queue a holds 8 of at most 4 h100, and 1 are asked for"},
		"but of another model, it does":                  {held{"a h100": 8}, "a", queueing.Amounts{"a100": gpus(1)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if excess := ledger(queues, tc.holds).Fits(tc.queue, tc.request); excess != nil {
				got = excess.String()
			}
			if got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestFullModelsAreThoseThatAnyModelMustNotComeFrom(t *testing.T) {
	t.Parallel()
	l := ledger([]queueing.Queue{
		{Name: "org", Quotas: limits("h100", 8)}, {Name: "a", Parent: "org", Quotas: limits("a100", 2, "l4", 4)},
	}, held{"org h100": 7, "a a100": 1})
	if got := l.Full("a", gpus(2)); !slices.Equal(got, []string{"a100", "h100"}) {
		t.Errorf("full: %v", got)
	}
	if got := l.Full("a", gpus(1)); len(got) > 0 {
		t.Errorf("full for one GPU: %v", got)
	}
}

func TestBorrowedIsWhatIsBeyondTheGuarantee(t *testing.T) {
	t.Parallel()
	queues := []queueing.Queue{
		{Name: "org", Quotas: guarantees("*", 16, "h100", 8)},
		{Name: "a", Parent: "org", Quotas: guarantees("h100", 8)},
		{Name: "b", Parent: "org", Quotas: guarantees("*", 8)},
		{Name: "bare"},
	}
	tests := map[string]struct {
		holds held
		want  held
	}{
		"nothing within the guarantees":                          {held{"a h100": 8, "b a100": 8}, held{"a *": 0, "b *": 0, "b a100": 0, "org *": 0}},
		"of another model than the guaranteed one":               {held{"a a100": 4}, held{"a *": 0, "a a100": 0, "org *": 0}},
		"beyond the queue's, within the parent's":                {held{"a h100": 8, "a a100": 4}, held{"a *": 4, "a h100": 0, "a a100": 4, "org *": 0}},
		"beyond the parent's as well":                            {held{"a h100": 12, "b a100": 8}, held{"a *": 4, "a h100": 4, "b *": 0, "org *": 4}},
		"of no model that a guarantee of any covers":             {held{"b h100": 8}, held{"b h100": 0, "b *": 0}},
		"everything that a queue without guarantee holds":        {held{"bare h100": 3}, held{"bare *": 3, "bare h100": 3}},
		"everything that is in no queue, or one that is deleted": {held{" h100": 3, "gone h100": 2}, held{" h100": 5, "gone *": 5}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger(queues, tc.holds)
			for key, want := range tc.want {
				queue, model, _ := strings.Cut(key, " ")
				if got := l.Borrowed(queue, model); got != gpus(want) {
					t.Errorf("%s: borrowed %s, want %d", key, got, want)
				}
			}
		})
	}
}

func TestReclaimable(t *testing.T) {
	t.Parallel()
	queues := []queueing.Queue{
		{Name: "org", Quotas: guarantees("*", 16)},
		{Name: "a", Parent: "org", Quotas: guarantees("*", 8)},
		{Name: "b", Parent: "org", Quotas: guarantees("*", 8)},
		{Name: "other", Quotas: guarantees("*", 8, "h100", 4)},
		{Name: "bare", Weight: 2},
		{Name: "keeps", Reclaim: &queueing.Reclaim{Policy: queueing.ReclaimNever}},
	}
	tests := map[string]struct {
		holds        held
		queue, model string
		size         int
		want         string
	}{
		"from whom has borrowed, not more than that": {
			held{"other h100": 10}, "a", "h100", 2, "other h100 2"},
		"from the parent's own jobs, which have no guarantee beside its children's": {
			held{"org h100": 16, "other h100": 10}, "a", "h100", 1, "org h100 16"},
		"nothing if the queue and its parent would be beyond their guarantees": {
			held{"a h100": 16, "other h100": 10}, "a", "h100", 1, ""},
		"nothing from whom is within the guarantee": {
			held{"other h100": 8}, "a", "h100", 2, ""},
		"from a sibling if the parent's guarantee is used up": {
			held{"b h100": 16, "bare h100": 4}, "a", "h100", 4, "b h100 8"},
		"from others first if the parent is owed as well": {
			held{"b h100": 10, "bare h100": 4}, "a", "h100", 4, "bare h100 4, b h100 2"},
		"a child gets from others what its parent is guaranteed, even beyond its own guarantee": {
			held{"a h100": 8, "bare h100": 4}, "a", "h100", 4, "bare h100 4"},
		"but not from a sibling": {
			held{"a h100": 8, "b h100": 4}, "a", "h100", 4, ""},
		"more for its weight first": {
			held{"bare h100": 8, "other h100": 13}, "a", "h100", 2, "other h100 5, bare h100 8"},
		"not what is guaranteed of the model": {
			held{"other h100": 4, "other a100": 8}, "a", "h100", 2, ""},
		"what is guaranteed of a model even from whom is within what is guaranteed of any": {
			held{"a h100": 8, "b h100": 8, "bare h100": 1}, "other", "h100", 4, "bare h100 1, a h100 8, b h100 8"},
		"of any model from all models": {
			held{"bare h100": 2, "bare a100": 3}, "a", "*", 2, "bare a100 3, bare h100 2"},
		"nothing from who never gives back": {
			held{"keeps h100": 2}, "a", "h100", 2, ""},
		"from what is in no queue": {
			held{" h100": 2}, "a", "h100", 2, " h100 2"},
		"nothing for a queue without guarantee": {
			held{"other h100": 16}, "bare", "h100", 1, ""},
		"nothing from other models": {
			held{"bare a100": 16}, "a", "h100", 1, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, lender := range ledger(queues, tc.holds).Reclaimable(tc.queue, queueing.Amounts{tc.model: gpus(tc.size)}) {
				got = append(got, fmt.Sprintf("%s %s %s", lender.Queue, lender.Model, lender.Amount))
			}
			if joined := strings.Join(got, ", "); joined != tc.want {
				t.Errorf("%q, want %q", joined, tc.want)
			}
		})
	}
}

func TestReclaimableBelowAFullParent(t *testing.T) {
	t.Parallel()
	both := func(guaranteed, limit int, more ...any) map[string]queueing.Quota {
		quotas := guarantees(more...)
		quotas["*"] = queueing.Quota{Guaranteed: gpus(guaranteed), Limit: gpus(limit)}
		return quotas
	}
	queues := []queueing.Queue{
		{Name: "org", Quotas: both(16, 16, "a100", 4)},
		{Name: "a", Parent: "org", Quotas: both(8, 12, "a100", 4)},
		{Name: "a1", Parent: "a", Quotas: guarantees("*", 2)},
		{Name: "a2", Parent: "a"},
		{Name: "b", Parent: "org", Quotas: guarantees("*", 8)},
		{Name: "other"},
	}
	tests := map[string]struct {
		holds   held
		queue   string
		request queueing.Amounts
		want    string
	}{
		"from a sibling only, though others have borrowed more": {
			held{"b h100": 14, "a1 h100": 1, "other h100": 40}, "a1", queueing.Amounts{"h100": gpus(2)}, "b h100 6"},
		"from all, if the parent has room": {
			held{"b h100": 12, "other h100": 40}, "a1", queueing.Amounts{"h100": gpus(2)}, "other h100 40, b h100 4"},
		"from below the farther one of two that are full": {
			held{"a2 h100": 12, "b h100": 4}, "a1", queueing.Amounts{"h100": gpus(2)}, "a2 h100 12"},
		"from the parent's own jobs": {
			held{"org h100": 10, "b h100": 6}, "a1", queueing.Amounts{"h100": gpus(2)}, "org h100 10"},
		"what is over a limit of all models may be of any": {
			held{"b h100": 12, "b a100": 4}, "a", queueing.Amounts{"a100": gpus(2)}, "b a100 4, b h100 8"},
		"nothing for a queue at its own limit": {
			held{"a h100": 12, "b h100": 4}, "a", queueing.Amounts{"h100": gpus(1)}, ""},
		"nothing for a queue beyond its guarantee": {
			held{"a h100": 8, "b h100": 8}, "a", queueing.Amounts{"h100": gpus(1)}, ""},
		"nothing for what the parent may never hold": {
			held{"b h100": 16}, "b", queueing.Amounts{"h100": gpus(17)}, ""},
		"nothing if two models are within the guarantee only each for itself": {
			held{"b h100": 16}, "a", queueing.Amounts{"h100": gpus(6), "a100": gpus(6)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, lender := range ledger(queues, tc.holds).Reclaimable(tc.queue, tc.request) {
				got = append(got, fmt.Sprintf("%s %s %s", lender.Queue, lender.Model, lender.Amount))
			}
			if joined := strings.Join(got, ", "); joined != tc.want {
				t.Errorf("%q, want %q", joined, tc.want)
			}
		})
	}
}

// TestNoQueueIsEverAboveALimit lets queues take whatever fits, and checks all limits and sums after
// each step.
func TestNoQueueIsEverAboveALimit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		queues := randomQueues(random, 10)
		l := queueing.NewLedger(queueing.NewTree(queues))
		own := map[string]queueing.Amounts{}
		for range 150 {
			queue, model := queues[random.IntN(len(queues))].Name, randomModels[random.IntN(2)]
			if own[queue] == nil {
				own[queue] = queueing.Amounts{}
			}
			amount := queueing.Amount(1 + random.IntN(400))
			switch mine := own[queue][model]; {
			case random.IntN(3) == 0:
				amount = -min(amount, mine)
			case l.Fits(queue, queueing.Amounts{model: amount}) != nil:
				continue
			}
			l.Add(queue, model, amount)
			own[queue][model] += amount
			checkSums(t, l, queues, own)
		}
	}
}

func checkSums(t *testing.T, l *queueing.Ledger, queues []queueing.Queue, own map[string]queueing.Amounts) {
	t.Helper()
	want := map[string]queueing.Amounts{}
	for queue, amounts := range own {
		for _, above := range l.Tree().Path(queue) {
			for model, amount := range amounts {
				if want[above] == nil {
					want[above] = queueing.Amounts{}
				}
				want[above][model] += amount
				want[above][queueing.AnyModel] += amount
			}
		}
	}
	for i := range queues {
		q := &queues[i]
		for _, model := range randomModels {
			got := l.Held(q.Name, model)
			if got != want[q.Name][model] {
				t.Fatalf("%s holds %s of %s, want %s", q.Name, got, model, want[q.Name][model])
			}
			if quota, found := q.Quotas[model]; found && got > quota.Limit {
				t.Fatalf("%s holds %s of %s, its limit is %s", q.Name, got, model, quota.Limit)
			}
			if borrowed := l.Borrowed(q.Name, model); borrowed < 0 || borrowed > got || borrowed > l.Borrowed(q.Name, queueing.AnyModel) {
				t.Fatalf("%s has borrowed %s of %s, holds %s", q.Name, borrowed, model, got)
			}
		}
	}
}

// TestReclaimNeverTakesWhatIsGuaranteed: who gets back all that Reclaimable says is within its
// guarantee at the level that decides, and those who lost it are still at theirs. It also ends:
// nobody can take it back.
func TestReclaimNeverTakesWhatIsGuaranteed(t *testing.T) {
	t.Parallel()
	taken := 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 3))
		queues := randomQueues(random, 8)
		tree := queueing.NewTree(queues)
		l := queueing.NewLedger(tree)
		for range 30 {
			l.Add(queues[random.IntN(len(queues))].Name, randomModels[random.IntN(2)], queueing.Amount(random.IntN(500)))
		}
		for range 30 {
			queue, model := queues[random.IntN(len(queues))].Name, randomModels[random.IntN(2)]
			lenders := l.Reclaimable(queue, queueing.Amounts{model: queueing.GPU})
			if len(lenders) == 0 {
				continue
			}
			first := lenders[0]
			amount := min(first.Amount, queueing.GPU)
			if slices.Contains(tree.Path(queue), first.Queue) {
				continue // the own jobs of a parent: its guarantee is for all of its children
			}
			l.Add(first.Queue, first.Model, -amount)
			l.Add(queue, model, amount)
			taken++
			if l.Held(first.Queue, first.Model) < tree.Guaranteed(first.Queue, first.Model) {
				t.Fatalf("seed %d: %s lost %s of %s to %s and is below its guarantee", seed, first.Queue, amount, first.Model, queue)
			}
			for _, back := range l.Reclaimable(first.Queue, queueing.Amounts{first.Model: amount}) {
				if back.Queue == queue {
					t.Fatalf("seed %d: %s took %s of %s from %s, which could take it back", seed, queue, amount, first.Model, first.Queue)
				}
			}
		}
	}
	if taken < 100 {
		t.Errorf("only %d were taken: the test shows nothing", taken)
	}
}

func manyQueues(count int) *queueing.Ledger {
	random := rand.New(rand.NewPCG(1, 4))
	queues := randomQueues(random, count)
	l := queueing.NewLedger(queueing.NewTree(queues))
	for i := range queues {
		l.Add(queues[i].Name, randomModels[random.IntN(2)], queueing.Amount(random.IntN(2000)))
	}
	return l
}

func BenchmarkTree1000(b *testing.B) {
	queues := randomQueues(rand.New(rand.NewPCG(1, 4)), 1000)
	for b.Loop() {
		queueing.NewTree(queues)
	}
}

func BenchmarkAssign1000(b *testing.B) {
	queues := randomQueues(rand.New(rand.NewPCG(1, 4)), 1000)
	for i := range queues {
		team := fmt.Sprint(i)
		queues[i].Accepts = func(labels map[string]string) bool { return labels["team"] == team }
	}
	tree := queueing.NewTree(queues)
	pod := &queueing.Applicant{NamespaceLabels: map[string]string{"team": "7", "kubernetes.io/metadata.name": "seven", "env": "prod"}}
	for b.Loop() {
		tree.Assign(pod)
	}
}

func BenchmarkReclaimable1000(b *testing.B) {
	l := manyQueues(1000)
	for b.Loop() {
		l.Reclaimable("q7", queueing.Amounts{"h100": queueing.GPU})
	}
}

func BenchmarkFits1000(b *testing.B) {
	l := manyQueues(1000)
	for i := 0; b.Loop(); i++ {
		l.Fits(fmt.Sprintf("q%d", i%1000), queueing.Amounts{"h100": queueing.GPU})
	}
}
