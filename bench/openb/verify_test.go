// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestALogThatHoldsIsAccepted(t *testing.T) {
	pods := []dataset.Pod{share("a", 60), share("b", 40), whole("c", 1), whole("d", 1), {Name: "e"}}
	records := []record{
		{Pod: "a", Node: "node", GPUs: []int{0}, Percent: 60}, {Pod: "b", Node: "node", GPUs: []int{0}, Percent: 40},
		{Pod: "c", Node: "node", GPUs: []int{1}, Percent: 100}, {Pod: "d"}, {Pod: "e", Node: "node"},
	}
	if err := verify(oneNode(2), pods, records); err != nil {
		t.Error(err)
	}
}

func TestALogThatDoesNotHoldIsRefused(t *testing.T) {
	here := func(name string, percent int, gpus ...int) record {
		return record{Pod: name, Node: "node", GPUs: gpus, Percent: percent}
	}
	picky := share("a", 60)
	picky.Shape.Models = []string{"A100"}
	hungry := dataset.Pod{Name: "a", Shape: placement.Shape{CPU: 10_001}}
	forgetful := dataset.Pod{Name: "a", Shape: placement.Shape{Memory: 1025}}
	for name, test := range map[string]struct {
		pods    []dataset.Pod
		records []record
		want    string
	}{
		"a card above 100 %":              {[]dataset.Pod{share("a", 60), share("b", 50)}, []record{here("a", 60, 0), here("b", 50, 0)}, "GPU 0 has 40 % left"},
		"a share of a used card":          {[]dataset.Pod{share("a", 60), whole("b", 1)}, []record{here("a", 60, 0), here("b", 100, 0)}, "GPU 0 has 40 % left"},
		"too few cards":                   {[]dataset.Pod{whole("a", 2)}, []record{here("a", 100, 0)}, "needs 100 % of 2 GPUs"},
		"a card twice":                    {[]dataset.Pod{whole("a", 2)}, []record{here("a", 100, 1, 1)}, "each once"},
		"a card that is not there":        {[]dataset.Pod{whole("a", 1)}, []record{here("a", 100, 2)}, "the GPUs 0 to 1"},
		"a smaller share":                 {[]dataset.Pod{share("a", 60)}, []record{here("a", 50, 0)}, "needs 60 % of 1 GPUs"},
		"another model":                   {[]dataset.Pod{picky}, []record{here("a", 60, 0)}, "model do not fit"},
		"too little CPU":                  {[]dataset.Pod{hungry}, []record{here("a", 0)}, "CPU"},
		"too little memory":               {[]dataset.Pod{forgetful}, []record{here("a", 0)}, "memory"},
		"a node that is not there":        {[]dataset.Pod{share("a", 60)}, []record{{Pod: "a", Node: "other", GPUs: []int{0}, Percent: 60}}, `no node "other"`},
		"a Pod that fits but was dropped": {[]dataset.Pod{share("a", 60)}, []record{{Pod: "a"}}, "fits on node node"},
		"another order":                   {[]dataset.Pod{share("a", 60)}, []record{here("b", 60, 0)}, `Pod "b" instead`},
		"a line too few":                  {[]dataset.Pod{share("a", 60)}, nil, "0 lines for 1 Pods"},
	} {
		t.Run(name, func(t *testing.T) {
			err := verify(oneNode(2), test.pods, test.records)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
