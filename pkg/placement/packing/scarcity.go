// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import "slices"

// scarcityOf returns, by model, how much others depend on it: the sum, over the requests
// that accept it among some models only, of their fraction of the demand divided by the
// fraction of the GPUs that they accept. Every model additionally gets a part of rarity,
// the more the fewer of its GPUs there are.
func scarcityOf(mix []Weighted, has stock, rarity float64) map[string]float64 {
	demand := 0.0
	for _, weighted := range mix {
		demand += weighted.Weight * float64(weighted.Request.Percent())
	}
	scarcity := map[string]float64{}
	for model, gpus := range has.gpus {
		if gpus == 0 {
			continue // nodes without GPUs
		}
		scarcity[model] = rarity * (1 - gpus/has.total)
	}
	for _, weighted := range mix {
		r := weighted.Request
		if len(r.Models) == 0 || r.Percent() == 0 {
			continue
		}
		accepted := 0.0
		for _, model := range r.Models {
			accepted += has.gpus[model]
		}
		if accepted == 0 {
			continue // there are no such GPUs
		}
		pressure := weighted.Weight * float64(r.Percent()) / demand * has.total / accepted
		for model := range scarcity {
			if slices.Contains(r.Models, model) {
				scarcity[model] += pressure
			}
		}
	}
	return scarcity
}
