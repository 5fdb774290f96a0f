// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import "slices"

// scarcityOf is, by model, how much others depend on it: over the requests that
// are content with some models only, the sum of their part of the demand divided
// by the part of the GPUs that they accept. To that comes a part, rarity, for any
// model that there is little of.
func scarcityOf(mix []Weighted, has stock, rarity float64) map[string]float64 {
	demand := 0.0
	for _, one := range mix {
		demand += one.Weight * float64(one.Request.Percent())
	}
	scarcity := map[string]float64{}
	for model, gpus := range has.gpus {
		if gpus == 0 {
			continue // nodes without GPUs
		}
		scarcity[model] = rarity * (1 - gpus/has.total)
	}
	for _, one := range mix {
		r := one.Request
		if len(r.Models) == 0 || r.Percent() == 0 {
			continue
		}
		accepted := 0.0
		for _, model := range r.Models {
			accepted += has.gpus[model]
		}
		if accepted == 0 {
			continue // nobody can have what is not there
		}
		pressure := one.Weight * float64(r.Percent()) / demand * has.total / accepted
		for model := range scarcity {
			if slices.Contains(r.Models, model) {
				scarcity[model] += pressure
			}
		}
	}
	return scarcity
}
