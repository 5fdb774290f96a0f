// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestEarningsAreWhatAFutureFills(t *testing.T) {
	t.Parallel()
	constrained := whole(1, 1)
	constrained.Models = []string{"l40s"}
	plenty := int64(100000)
	tests := map[string]struct {
		cpu    int64
		free   []int
		future []placement.Shape
		want   float64
	}{
		"nothing comes":                             {plenty, []int{100}, nil, 0},
		"nothing is free":                           {plenty, []int{0, 0}, []placement.Shape{whole(1, 1)}, 0},
		"whole GPUs until they are gone":            {plenty, []int{100, 100, 100}, []placement.Shape{whole(1, 2), whole(1, 2), whole(1, 1), whole(1, 1)}, 3},
		"what does not fit is skipped":              {plenty, []int{100, 100}, []placement.Shape{whole(1, 4), whole(1, 1)}, 1},
		"a used card is not whole":                  {plenty, []int{90, 100}, []placement.Shape{whole(1, 2), whole(1, 1)}, 1},
		"shares go on the fullest card":             {plenty, []int{50, 100}, []placement.Shape{share(1, 50), whole(1, 1)}, 1.5},
		"a share that fits only a free card":        {plenty, []int{50, 100}, []placement.Shape{share(1, 60), whole(1, 1), share(1, 50)}, 1.1},
		"shares share a card":                       {plenty, []int{100}, []placement.Shape{share(1, 30), share(1, 30), share(1, 30), share(1, 30)}, 0.9},
		"a share that no card has, though all have": {plenty, []int{40, 40}, []placement.Shape{share(1, 60)}, 0},
		"CPU runs out":                              {2500, []int{100, 100, 100}, []placement.Shape{whole(1, 1), whole(2, 1), whole(1, 1)}, 2},
		"Pods without GPUs take nothing":            {1000, []int{100}, []placement.Shape{{CPU: 1000}, whole(1, 1)}, 1},
		"another model is not for this node":        {plenty, []int{100, 100}, []placement.Shape{constrained, whole(1, 1)}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, New(Default()))
			var future []*placement.Request
			for _, s := range test.future {
				if r := c.Request(s); r.Percent() > 0 {
					future = append(future, r)
				}
			}
			s := stateOf(t, test.cpu, test.free...)
			before := slices.Clone(s.Free())
			if got := earnings(s, [][]*placement.Request{future}); !near(got, test.want, 1e-12) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			// With an additional empty future it is half as much.
			if got := earnings(s, [][]*placement.Request{future, nil}); !near(got, test.want/2, 1e-12) {
				t.Errorf("on average: got %v, want %v", got, test.want/2)
			}
			if !slices.Equal(before, s.Free()) {
				t.Errorf("the State was changed to %v", s.Free())
			}
		})
	}
}

func TestWithoutAFutureNothingIsEarned(t *testing.T) {
	t.Parallel()
	if got := earnings(stateOf(t, 1000, 100), nil); got != 0 {
		t.Errorf("got %v", got)
	}
}

func TestFuturesAreDrawnFromTheMix(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, New(Default()))
	often, seldom, cpu := c.Request(whole(1, 1)), c.Request(whole(1, 2)), c.Request(placement.Shape{CPU: 1})
	mix := []Weighted{{Request: cpu, Weight: 5}, {Request: often, Weight: 4}, {Request: seldom, Weight: 1}}
	draw := func() [][]*placement.Request {
		return futuresOf(mix, rand.New(rand.NewPCG(1, 2)))
	}
	counts := map[*placement.Request]int{}
	for _, future := range draw() {
		for _, r := range future {
			counts[r]++
		}
	}
	if counts[cpu] != 0 {
		t.Errorf("Pods without GPUs come %d times, they fill nothing", counts[cpu])
	}
	if all, part := counts[often]+counts[seldom], float64(counts[often])/float64(counts[seldom]); all < 200 || part < 2.5 || part > 6 {
		t.Errorf("drawn %d and %d times, want about 4 to 1", counts[often], counts[seldom])
	}
	for i, future := range draw() {
		if !slices.Equal(future, draw()[i]) {
			t.Errorf("future %d is another one each time", i)
		}
	}
}
