// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// minus returns the differences of two maps.
func minus[K comparable, N int | float64](after, before map[K]N) map[K]N {
	difference := map[K]N{}
	for name, value := range after {
		if value != before[name] {
			difference[name] = value - before[name]
		}
	}
	return difference
}

// sum adds up the values of a map.
func sum(values map[string]float64) float64 {
	total := 0.0
	for _, value := range values {
		total += value
	}
	return total
}
