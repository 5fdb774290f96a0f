// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math/rand"
	"slices"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
)

// demandLimit is the demand up to which Pods arrive, as a multiple of the capacity.
const demandLimit = 1.3

// order is what depends on the seed.
type order struct {
	pods []dataset.Pod
	// ranks are the ranks of the nodes, which are sorted by name, for ties that are
	// decided as published.
	ranks []int
}

// arrivals returns the Pods in the order in which they arrive with a seed, as in the
// published simulator: shuffled, then drawn again until the demand would exceed the
// limit. That check counts one GPU for Pods with several. Then the nodes are ranked with
// the same generator.
func arrivals(pods []dataset.Pod, seed int64, nodes, capacityMilli int) order {
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b dataset.Pod) int { return cmp.Compare(a.Name, b.Name) })
	random := rand.New(rand.NewSource(seed)) //nolint:gosec // the protocol names this generator
	random.Int()                             // the simulator logs it
	list := slices.Clone(sorted)
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	demand := 0
	for i := range list {
		demand += list[i].Milli * gpusOf(&list[i])
	}
	for {
		next := sorted[random.Intn(len(sorted))]
		if float64(demand+next.Milli) > demandLimit*float64(capacityMilli) {
			return order{pods: list, ranks: random.Perm(nodes)}
		}
		demand += next.Milli * gpusOf(&next)
		list = append(list, next)
	}
}

func gpusOf(p *dataset.Pod) int { return max(p.Shape.GPUs, 1) }
