// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"math"
	"slices"
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/scheduler/plugins/network/estimate"
)

const (
	worst int64 = fwk.MinScore
	best  int64 = fwk.MaxScore
	// neutral is the score of an unknown node: one without an estimate.
	neutral = (worst + best) / 2
)

// shortest keeps the arithmetic away from 0.
const shortest = time.Microsecond

// scores maps estimates to scores, so that
//
//   - an unknown node has the neutral score,
//   - a faster node never has less than a slower one,
//   - if two nodes differ, the fastest has more than neutral and the slowest less:
//     an unknown node is never best and never worst,
//   - if all known nodes are equal, they are compared with what is typical: slow ones
//     have less than unknown ones, fast ones more.
//
// What counts is the ratio to a reference: a node that takes as long as the reference
// has the neutral score, one that takes a third of the time 75, three times as long 25.
func scores(estimates []estimate.Estimate, typical time.Duration) []int64 {
	known := make([]float64, 0, len(estimates))
	for _, one := range estimates {
		if one.Known {
			known = append(known, positive(one.Duration))
		}
	}
	slices.Sort(known)
	compared := reference(known, positive(typical))
	list := make([]int64, len(estimates))
	for i, one := range estimates {
		list[i] = neutral
		if one.Known {
			list[i] = score(positive(one.Duration), compared)
		}
	}
	return list
}

func positive(duration time.Duration) float64 { return float64(max(duration, shortest)) }

// reference returns what the sorted values are compared with: their median. If
// that is also the smallest or the largest of them, it is moved halfway (as a
// ratio) to the nearest other value, so that it lies between the two.
func reference(sorted []float64, typical float64) float64 {
	if len(sorted) == 0 || sorted[0] == sorted[len(sorted)-1] {
		return typical
	}
	lowest, highest := sorted[0], sorted[len(sorted)-1]
	median := geometricMean(sorted[(len(sorted)-1)/2], sorted[len(sorted)/2])
	switch median {
	case lowest:
		next := slices.IndexFunc(sorted, func(value float64) bool { return value > lowest })
		return geometricMean(lowest, sorted[next])
	case highest:
		next := slices.Index(sorted, highest)
		return geometricMean(sorted[next-1], highest)
	default:
		return median
	}
}

// geometricMean returns the geometric mean.
func geometricMean(a, b float64) float64 {
	if a == b {
		return a // without rounding
	}
	return math.Sqrt(a * b)
}

// score compares a value with the reference. The slightest difference is worth a
// point, or rounding would make a node that is slower as good as an unknown one.
func score(value, reference float64) int64 {
	share := (reference - value) / (reference + value) // between -1 and 1
	exact := float64(neutral) + share*float64(neutral-worst)
	rounded := min(max(int64(math.Round(exact)), worst), best)
	switch {
	case value < reference:
		return max(rounded, neutral+1)
	case value > reference:
		return min(rounded, neutral-1)
	default:
		return neutral
	}
}
