// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import "falldio.github.io/gpu-controller/pkg/placement"

// particular is how many of the most frequent requests are looked at for what they depend on.
const particular = 128

// group is the nodes that the same requests depend on, because these fit only on some nodes:
// for their models, their labels, or their size.
type group struct {
	// dependent is the fraction of the demand for GPUs that depends on these nodes.
	dependent float64
	// kinds have a State of each kind of these nodes.
	kinds []*placement.State
}

// free returns how many GPUs of the group are free.
func (g *group) free() float64 {
	percent := 0
	for _, empty := range g.kinds {
		percent += empty.KindPercent()
	}
	return gpus(percent)
}

// groupsOf returns the groups, and the index of the group of each kind of node in one.
func groupsOf(mix []Weighted, kinds []kindStock) (groups []group, groupOf map[int]int) {
	dependent := make([]float64, len(kinds))
	takes := make([][]byte, len(kinds)) // by kind: which requests it takes
	demand, looked := 0.0, 0
	for _, weighted := range mix {
		if weighted.Request.Percent() == 0 {
			continue
		}
		weight := weighted.Weight * float64(weighted.Request.Percent())
		demand += weight
		if looked++; looked <= particular {
			depends(weighted.Request, weight, kinds, dependent, takes)
		}
	}
	groupOf = map[int]int{}
	known := map[string]int{}
	for i := range kinds {
		if dependent[i] == 0 {
			continue
		}
		at, found := known[string(takes[i])]
		if !found {
			at = len(groups)
			known[string(takes[i])] = at
			groups = append(groups, group{})
		}
		groups[at].dependent += dependent[i] / demand
		groups[at].kinds = append(groups[at].kinds, kinds[i].one)
		groupOf[kinds[i].one.Kind()] = at
	}
	return groups, groupOf
}

// depends adds a request's demand to the kinds of nodes that take it, by their GPUs, the more the
// fewer GPUs there are in all of them: a request that fits everywhere depends on none.
func depends(r *placement.Request, weight float64, kinds []kindStock, dependent []float64, takes [][]byte) {
	accepted, total := 0.0, 0.0
	for i := range kinds {
		took := byte(0)
		if kinds[i].one.TakesEmpty(r) {
			took = 1
			accepted += kinds[i].gpus
		}
		takes[i] = append(takes[i], took)
		total += kinds[i].gpus
	}
	if accepted == 0 {
		return // there are no such nodes
	}
	for i := range kinds {
		if takes[i][len(takes[i])-1] == 1 {
			dependent[i] += weight * (1 - accepted/total) * kinds[i].gpus / accepted
		}
	}
}
