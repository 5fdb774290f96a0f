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

// waits returns a job that asks for GPUs of a model, or of any with "*". The jobs of a list are submitted one after the
// other.
func waits(key, queue, model string, gpus int) waiting { return waiting{key, queue, model, gpus, 0} }

type waiting struct {
	key, queue, model string
	gpus              int
	priority          int32
}

// serve returns the keys of jobs in the order in which they are served.
func serve(ledger *queueing.Ledger, list []waiting) string {
	return strings.ReplaceAll(serveMarked(ledger, list), "!", "")
}

// serveMarked is serve with marks of the jobs that are guaranteed.
func serveMarked(ledger *queueing.Ledger, list []waiting) string {
	var jobs []queueing.Job
	var asked []queueing.Amounts
	for i, one := range list {
		jobs = append(jobs, job(one.key, one.queue, one.priority, i, float64(one.gpus), time.Hour))
		asked = append(asked, queueing.Amounts{one.model: gpus(one.gpus)})
	}
	var served []string
	for _, one := range (queueing.Options{Policy: queueing.FIFO}).Serve(jobs, asked, nil, ledger) {
		name := jobs[one.Index].Key
		if one.Guaranteed {
			name += "!"
		}
		served = append(served, name)
	}
	return strings.Join(served, " ")
}

func TestServeBeginsWithWhatIsGuaranteed(t *testing.T) {
	t.Parallel()
	queues := []queueing.Queue{{Name: "a", Quotas: guarantees("*", 8)}, {Name: "b"}}
	list := []waiting{waits("b1", "b", "*", 4), waits("a1", "a", "*", 4), waits("a2", "a", "*", 4), waits("a3", "a", "*", 1)}
	tests := map[string]struct {
		holds held
		want  string
	}{
		"while nothing is held, as much goes first as is guaranteed": {held{}, "a1! a2! b1 a3"},
		"what the queue holds counts":                                {held{"a h100": 4}, "a1! b1 a2 a3"},
		"a small job does not pass one that is beyond the guarantee": {held{"a h100": 5}, "b1 a1 a2 a3"},
		"what others hold does not count":                            {held{"b h100": 100}, "a1! a2! b1 a3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := ledger(queues, test.holds)
			before := l.Held("a", queueing.AnyModel)
			if got := serveMarked(l, list); got != test.want {
				t.Errorf("order %q, want %q", got, test.want)
			}
			if l.Held("a", queueing.AnyModel) != before {
				t.Error("the ledger was changed")
			}
		})
	}
	if got := serve(nil, list); got != "b1 a1 a2 a3" {
		t.Errorf("without a ledger the order is %q", got)
	}
}

func TestServeComparesSiblingsLevelByLevel(t *testing.T) {
	t.Parallel()
	queues := []queueing.Queue{
		{Name: "org", Quotas: guarantees("*", 16, "h100", 2)},
		{Name: "a", Parent: "org", Quotas: guarantees("*", 8, "h100", 2)},
		{Name: "a1", Parent: "a", Quotas: guarantees("h100", 2)},
		{Name: "a2", Parent: "a"},
		{Name: "b", Parent: "org", Quotas: guarantees("*", 4)},
		{Name: "other", Quotas: guarantees("*", 8)},
		{Name: "bare"},
	}
	urgent := waits("urgent", "org", "*", 1)
	urgent.priority = 100
	tests := map[string]struct {
		holds held
		jobs  []waiting
		want  string
	}{
		"a child below its guarantee goes before a sibling that is at its own": {
			held{"a2 h100": 8}, []waiting{waits("a", "a2", "*", 1), waits("b", "b", "*", 1)}, "b a"},
		"neither if both are at theirs": {
			held{"a2 h100": 8, "b h100": 4}, []waiting{waits("a", "a2", "*", 1), waits("b", "b", "*", 1)}, "a b"},
		"even if the parent has borrowed": {
			held{"a2 h100": 20}, []waiting{waits("a", "a2", "*", 1), waits("b", "b", "*", 1)}, "b a"},
		"a parent that has borrowed gains nothing against others by its children": {
			held{"a2 h100": 20}, []waiting{waits("bare", "bare", "*", 1), waits("a", "a2", "*", 1), waits("b", "b", "*", 1)}, "bare b a"},
		"nor does it lose its turns": {
			held{"a2 h100": 20}, []waiting{waits("a", "a2", "*", 1), waits("bare", "bare", "*", 1), waits("b", "b", "*", 1)}, "b bare a"},
		"roots that are below their guarantees are equal, however deep their queues are": {
			held{}, []waiting{waits("other", "other", "*", 1), waits("a1", "a1", "h100", 1), waits("bare", "bare", "*", 1)}, "other a1 bare"},
		"the root decides before its children do": {
			held{"a2 h100": 16}, []waiting{waits("b", "b", "*", 1), waits("other", "other", "*", 1)}, "other b"},
		"a grandchild goes before its sibling": {
			held{}, []waiting{waits("a2", "a2", "h100", 1), waits("a1", "a1", "h100", 1)}, "a1 a2"},
		"but not before a cousin whose parent is below its guarantee when its own is not": {
			held{"a2 h100": 8}, []waiting{waits("a1", "a1", "h100", 1), waits("b", "b", "*", 1)}, "b a1"},
		"what is served before counts": {
			held{}, []waiting{waits("a-1", "a2", "*", 8), waits("a-2", "a2", "*", 1), waits("b", "b", "*", 4)}, "a-1 b a-2"},
		"a child does not use up what its parent is guaranteed before its sibling has its part": {
			held{"org h100": 4}, []waiting{waits("bare", "bare", "*", 1), waits("a-1", "a2", "*", 8), waits("a-2", "a2", "*", 4), waits("b", "b", "*", 4)}, "a-1 b bare a-2"},
		"a queue's own jobs come after its children's that are guaranteed, whatever their priority": {
			held{}, []waiting{urgent, waits("b", "b", "*", 1)}, "b urgent"},
		"and compete with the others by their turns": {
			held{"b h100": 4}, []waiting{urgent, waits("b", "b", "*", 1)}, "urgent b"},
		"a guarantee of one model does not hold for others": {
			held{"a2 a100": 2}, []waiting{waits("a2", "a2", "a100", 1), waits("a1", "a1", "a100", 3)}, "a2 a1"},
		"a job that does not fit keeps back only those that ask for the same model": {
			held{"a1 a100": 2}, []waiting{waits("a2", "a2", "h100", 1), waits("a100", "a1", "a100", 3), waits("h100", "a1", "h100", 2)}, "h100 a2 a100"},
		"nor does it keep back those of other queues": {
			held{"b h100": 4}, []waiting{waits("bare", "bare", "*", 1), waits("large", "a2", "*", 17), waits("small", "b", "*", 1)}, "small bare large"},
		"what is in no queue is a root without guarantee": {
			held{}, []waiting{waits("none", "", "*", 1), waits("gone", "gone", "*", 1), waits("b", "b", "*", 1)}, "b none gone"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := serve(ledger(queues, test.holds), test.jobs); got != test.want {
				t.Errorf("order %q, want %q", got, test.want)
			}
		})
	}
}

// TestServeSharesOutTheTurnsOfEachRoot: guarantees reorder the jobs of a root, and jobs go first because of it, but its
// jobs have its keys as their turns, each once. Nobody is lost.
func TestServeSharesOutTheTurnsOfEachRoot(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 5))
		queues := randomQueues(random, 12)
		l := ledger(queues, nil)
		var jobs []queueing.Job
		var asked []queueing.Amounts
		for i := range 60 {
			queue, model := queues[random.IntN(len(queues))].Name, randomModels[random.IntN(3)]
			size := 1 + random.IntN(4)
			jobs = append(jobs, job(fmt.Sprint(i), queue, int32(random.IntN(3)), random.IntN(100), float64(size), time.Duration(random.IntN(100))*time.Minute))
			asked = append(asked, queueing.Amounts{model: gpus(size)})
			l.Add(queues[random.IntN(len(queues))].Name, randomModels[random.IntN(2)], queueing.Amount(random.IntN(300)))
		}
		options := queueing.Options{}
		want, got, positions := map[string][]float64{}, map[string][]float64{}, map[string]int{}
		for _, one := range options.Serve(jobs, asked, nil, l) {
			path := l.Tree().Path(jobs[one.Index].Queue)
			root := path[len(path)-1]
			got[root], want[root] = append(got[root], one.Turn), append(want[root], options.Key(&jobs[one.Index], 1))
			if queue := jobs[one.Index].Queue; one.Position != positions[queue] {
				t.Fatalf("seed %d: job %d is number %d of queue %s, want %d", seed, one.Index, one.Position, queue, positions[queue])
			}
			positions[jobs[one.Index].Queue]++
		}
		count := 0
		for root := range want {
			slices.Sort(want[root])
			slices.Sort(got[root])
			if count += len(want[root]); !slices.Equal(want[root], got[root]) {
				t.Fatalf("seed %d: the turns of %s are %v, want %v", seed, root, got[root], want[root])
			}
		}
		if count != len(jobs) {
			t.Fatalf("seed %d: %d jobs are served, want %d", seed, count, len(jobs))
		}
	}
}
