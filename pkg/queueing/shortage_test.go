// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package queueing_test

import (
	"fmt"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/queueing"
)

func TestShortagesOfAncestors(t *testing.T) {
	t.Parallel()
	queues := []queueing.Queue{
		{Name: "all", Quotas: limits("*", 24)},
		{Name: "org", Parent: "all", Quotas: limits("*", 16, "h100", 8)},
		{Name: "a", Parent: "org", Quotas: limits("*", 12)},
		{Name: "b", Parent: "org"},
		{Name: "other", Parent: "all"},
	}
	tests := map[string]struct {
		holds   held
		request queueing.Amounts
		want    string
	}{
		"none within all limits":                          {held{"b h100": 4}, queueing.Amounts{"h100": gpus(4)}, ""},
		"what the parent holds too much":                  {held{"b a100": 14}, queueing.Amounts{"a100": gpus(4)}, "org * 2"},
		"of the model and of all, each for itself":        {held{"b h100": 8, "b a100": 8}, queueing.Amounts{"h100": gpus(4)}, "org h100 4, org * 4"},
		"of several ancestors, the nearest first":         {held{"b a100": 14, "other a100": 10}, queueing.Amounts{"a100": gpus(4)}, "org * 2, all * 4"},
		"of a farther one only":                           {held{"b a100": 4, "other a100": 18}, queueing.Amounts{"a100": gpus(4)}, "all * 2"},
		"more than the queue's own limit helps nobody":    {held{"a a100": 12, "b a100": 4}, queueing.Amounts{"a100": gpus(1)}, "never"},
		"nor what is more than an ancestor may ever hold": {held{"b h100": 8}, queueing.Amounts{"h100": gpus(9)}, "never"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, mendable := ledger(queues, test.holds).Shortages("a", test.request)
			var got []string
			for _, one := range list {
				got = append(got, fmt.Sprintf("%s %s %s", one.Queue, one.Model, one.Amount))
			}
			if !mendable {
				got = append(got, "never")
			}
			if joined := strings.Join(got, ", "); joined != test.want {
				t.Errorf("%q, want %q", joined, test.want)
			}
		})
	}
}

func TestOnlyWhatIsBelowTheQueueCoversItsShortage(t *testing.T) {
	t.Parallel()
	tree := queueing.NewTree([]queueing.Queue{{Name: "org"}, {Name: "b", Parent: "org"}, {Name: "other"}})
	ofAny, ofModel := queueing.Shortage{Queue: "org", Model: "*"}, queueing.Shortage{Queue: "org", Model: "h100"}
	for from, want := range map[string][2]bool{
		"b h100": {true, true}, "org h100": {true, true}, "b a100": {true, false}, "other h100": {}, " h100": {},
	} {
		queue, model, _ := strings.Cut(from, " ")
		if got := [2]bool{ofAny.Covers(tree, queue, model), ofModel.Covers(tree, queue, model)}; got != want {
			t.Errorf("%s: %v, want %v", from, got, want)
		}
	}
}
