// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"strings"
	"testing"
	"time"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

func TestServeMarksWhatIsGuaranteed(t *testing.T) {
	t.Parallel()
	tree := queueing.NewTree([]queueing.Queue{
		{Name: "a", Quotas: map[string]queueing.Quota{queueing.AnyModel: {Guaranteed: 8 * queueing.GPU, Limit: queueing.Unlimited}}},
		{Name: "b"},
	})
	jobs := func() []queueing.Job {
		return []queueing.Job{
			job("b1", "b", 0, 0, 4, time.Hour), job("a1", "a", 0, 1, 4, time.Hour), job("a2", "a", 0, 2, 4, time.Hour), job("a3", "a", 0, 3, 1, time.Hour),
		}
	}
	tests := map[string]struct {
		held   queueing.Amount
		ledger bool
		want   string
	}{
		"while nothing is held, as much goes first as is guaranteed": {0, true, "a1! a2! b1 a3"},
		"what the queue holds counts":                                {4 * queueing.GPU, true, "a1! b1 a2 a3"},
		"a small job does not pass one that is beyond the guarantee": {5 * queueing.GPU, true, "b1 a1 a2 a3"},
		"without a ledger nothing is guaranteed":                     {0, false, "b1 a1 a2 a3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ledger *queueing.Ledger
			if test.ledger {
				ledger = queueing.NewLedger(tree)
				ledger.Add("a", "h100", test.held)
			}
			list := jobs()
			var asked []queueing.Amounts
			for i := range list {
				asked = append(asked, queueing.Amounts{queueing.AnyModel: queueing.Amount(list[i].GPUs) * queueing.GPU})
			}
			var got []string
			for _, one := range (queueing.Options{Policy: queueing.FIFO}).Serve(list, asked, nil, ledger) {
				key := list[one.Index].Key
				if list[one.Index].Guaranteed {
					key += "!"
				}
				got = append(got, key)
			}
			if joined := strings.Join(got, " "); joined != test.want {
				t.Errorf("order %q, want %q", joined, test.want)
			}
			if test.ledger && ledger.Held("a", queueing.AnyModel) != test.held {
				t.Error("the ledger was changed")
			}
		})
	}
}
