// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

const typical = 100 * time.Millisecond

// estimates are in milliseconds; negative ones are unknown.
func estimates(milliseconds ...float64) []estimate.Estimate {
	list := make([]estimate.Estimate, len(milliseconds))
	for i, one := range milliseconds {
		if one >= 0 {
			list[i] = estimate.Estimate{Known: true, Duration: time.Duration(one * float64(time.Millisecond))}
		}
	}
	return list
}

func TestScores(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		milliseconds []float64
		want         []int64
	}{
		"no nodes":                                      {nil, []int64{}},
		"nothing is known":                              {[]float64{-1, -1}, []int64{50, 50}},
		"one slow node is below unknown ones":           {[]float64{-1, 2000, -1}, []int64{50, 5, 50}},
		"one fast node is above unknown ones":           {[]float64{-1, 1, -1}, []int64{50, 99, 50}},
		"one typical node is like unknown ones":         {[]float64{-1, 100}, []int64{50, 50}},
		"one that is hardly slow is below unknown ones": {[]float64{-1, 101}, []int64{50, 49}},
		"all the same are compared with the typical":    {[]float64{50, 50, -1}, []int64{67, 67, 50}},
		"all fail": {[]float64{2000, 2000, 2000}, []int64{5, 5, 5}},
		"two that differ lie around unknown ones":          {[]float64{2000, 1000, -1}, []int64{41, 59, 50}},
		"two that hardly differ lie around unknown ones":   {[]float64{10, 10.001, -1}, []int64{51, 49, 50}},
		"the median is neutral":                            {[]float64{10, 20, 40}, []int64{67, 50, 33}},
		"one slow among many fast":                         {[]float64{1, 1, 1, 1, 100, -1}, []int64{91, 91, 91, 91, 9, 50}},
		"one fast among many slow":                         {[]float64{100, 100, 100, 1, -1}, []int64{9, 9, 9, 91, 50}},
		"an outlier does not squeeze the others":           {[]float64{10, 20, 30, 2000}, []int64{71, 55, 45, 1}},
		"no time at all":                                   {[]float64{0, 0, 1}, []int64{97, 97, 3}},
		"an even number has its median between the middle": {[]float64{10, 20, 40, 80}, []int64{74, 59, 41, 26}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, scores(estimates(test.milliseconds...), typical)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// drawn returns some estimates; about a third is unknown, and equal ones are
// frequent.
func drawn(dice *rand.Rand) []estimate.Estimate {
	list := make([]estimate.Estimate, 1+dice.IntN(12))
	for i := range list {
		if dice.IntN(3) > 0 {
			list[i] = estimate.Estimate{Known: true, Duration: time.Duration(dice.Int64N(8)*dice.Int64N(1000)) * 250 * time.Microsecond}
		}
	}
	return list
}

func TestUnknownNodesAreNeverBestAndNeverWorst(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20_000) {
		list := drawn(rand.New(rand.NewPCG(seed, 0)))
		got := scores(list, typical)
		var known []time.Duration
		var knownScores []int64
		for i, one := range list {
			if !one.Known && got[i] != neutral {
				t.Fatalf("%v: an unknown node has %d", list, got[i])
			}
			if one.Known {
				known, knownScores = append(known, max(one.Duration, shortest)), append(knownScores, got[i])
			}
		}
		if problem := problemOf(known, knownScores); problem != "" {
			t.Fatalf("%v: %v: %s", list, got, problem)
		}
	}
}

// problemOf returns what is wrong with the scores of known nodes; empty for
// nothing.
func problemOf(known []time.Duration, scores []int64) string {
	if len(known) == 0 {
		return ""
	}
	fastest, slowest := slices.Min(known), slices.Max(known)
	high, low := slices.Max(scores), slices.Min(scores)
	switch {
	case low < worst || high > best:
		return "scores that the scheduler refuses"
	case fastest < slowest && (high <= neutral || low >= neutral):
		return "unknown nodes are best or worst"
	case fastest == slowest && fastest > typical && high >= neutral:
		return "all known are slow"
	case fastest == slowest && fastest < typical && low <= neutral:
		return "all known are fast"
	}
	return ""
}

func TestFasterNodesNeverHaveLess(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20_000) {
		list := drawn(rand.New(rand.NewPCG(seed, 2)))
		got := scores(list, typical)
		for i, one := range list {
			for j, other := range list {
				if one.Known && other.Known && one.Duration < other.Duration && got[i] < got[j] {
					t.Fatalf("%v: %v", list, got)
				}
			}
		}
	}
}

func TestScoresDoNotDependOnTheOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		dice := rand.New(rand.NewPCG(seed, 1))
		list := drawn(dice)
		want := scores(list, typical)
		order := dice.Perm(len(list))
		shuffled := make([]estimate.Estimate, len(list))
		for to, from := range order {
			shuffled[to] = list[from]
		}
		for to, score := range scores(shuffled, typical) {
			if score != want[order[to]] {
				t.Fatalf("%v: %v, shuffled by %v: %d at %d", list, want, order, score, to)
			}
		}
	}
}
