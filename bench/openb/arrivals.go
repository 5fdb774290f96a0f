// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math/rand"
	"slices"
)

// demandLimit is the demand up to which Pods arrive, in times the capacity.
const demandLimit = 1.3

// arrivals returns the Pods in the order in which they arrive with a seed, as the
// published simulator has it: shuffled, then drawn again until the demand would
// exceed the limit. That check counts one GPU of Pods with several.
func arrivals(pods []pod, seed int64, capacityMilli int) []pod {
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b pod) int { return cmp.Compare(a.name, b.name) })
	random := rand.New(rand.NewSource(seed)) //nolint:gosec // the protocol names this generator
	random.Int()
	list := slices.Clone(sorted)
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	demand := 0
	for _, one := range list {
		demand += one.milli * gpusOf(one)
	}
	for {
		next := sorted[random.Intn(len(sorted))]
		if float64(demand+next.milli) > demandLimit*float64(capacityMilli) {
			return list
		}
		demand += next.milli * gpusOf(next)
		list = append(list, next)
	}
}

func gpusOf(p pod) int { return max(p.shape.GPUs, 1) }
