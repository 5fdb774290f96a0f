// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"falldio.github.io/gpu-controller/bench/openb/bound"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// bounds are upper bounds of the allocation at 100 % demand, in percent of the capacity.
type bounds struct {
	// refusing is for schedulers that may refuse any Pod, accepting for those that accept
	// all Pods as long as everything fits.
	refusing, accepting float64
	// first is how many Pods arrive before not everything fits.
	first int
}

// bounds finds the bounds at 100 % demand.
func (w *workload) bounds(seed int64) (*bounds, error) {
	var shapes []placement.Shape
	arrived := 0
	for _, p := range w.arrivals(seed).pods {
		if arrived += p.Shape.Percent(); arrived > w.capacity {
			break
		}
		shapes = append(shapes, p.Shape)
	}
	cards := float64(w.capacity) / placement.Card
	refusing, err := bound.Refusing(w.nodes, shapes)
	if err != nil {
		return nil, err
	}
	accepting, first, err := bound.Accepting(w.nodes, shapes)
	if err != nil {
		return nil, err
	}
	return &bounds{refusing: 100 * refusing / cards, accepting: 100 * accepting / cards, first: first}, nil
}
