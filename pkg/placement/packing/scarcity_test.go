// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestModelsThatOthersDependOnAreScarce(t *testing.T) {
	t.Parallel()
	of := func(shape placement.Shape, models ...string) placement.Shape {
		shape.Models = models
		return shape
	}
	// 6 GPUs of model a, 2 of b.
	has := stock{gpus: map[string]float64{"a": 6, "b": 2}, total: 8}
	tests := map[string]struct {
		mix    map[*placement.Shape]float64
		rarity float64
		want   map[string]float64
	}{
		"who takes any model depends on none": {
			map[*placement.Shape]float64{new(whole(1, 4)): 3}, 0, map[string]float64{"a": 0, "b": 0}},
		"a quarter of the demand wants the quarter that is b": {
			map[*placement.Shape]float64{new(whole(1, 1)): 3, new(of(whole(1, 1), "b")): 1}, 0, map[string]float64{"a": 0, "b": 1}},
		"demand counts by GPUs": {
			map[*placement.Shape]float64{new(whole(1, 1)): 2, new(of(whole(1, 2), "a")): 1}, 0, map[string]float64{"a": 0.5 * 8 / 6, "b": 0}},
		"shares count as what they are": {
			map[*placement.Shape]float64{new(of(share(1, 50), "a")): 2, new(of(whole(1, 1), "b")): 1}, 0,
			map[string]float64{"a": 0.5 * 8 / 6, "b": 0.5 * 8 / 2}},
		"who takes both depends on each a little": {
			map[*placement.Shape]float64{new(of(whole(1, 1), "a", "b")): 1}, 0, map[string]float64{"a": 1, "b": 1}},
		"what is not there is no matter": {
			map[*placement.Shape]float64{new(whole(1, 1)): 1, new(of(whole(1, 1), "x")): 1}, 0, map[string]float64{"a": 0, "b": 0}},
		"Pods without GPUs depend on no model": {
			map[*placement.Shape]float64{new(whole(1, 1)): 1, new(of(placement.Shape{CPU: 1}, "b")): 9}, 0, map[string]float64{"a": 0, "b": 0}},
		"rare models are scarce in any case": {
			map[*placement.Shape]float64{new(whole(1, 1)): 3, new(of(whole(1, 1), "b")): 1}, 0.3,
			map[string]float64{"a": 0.3 * 0.25, "b": 0.3*0.75 + 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, New(Default()))
			var mix []Weighted
			for shape, weight := range test.mix {
				mix = append(mix, Weighted{Request: c.Request(*shape), Weight: weight})
			}
			got := scarcityOf(mix, has, test.rarity)
			if len(got) != len(test.want) {
				t.Fatalf("got %v, want %v", got, test.want)
			}
			for model, want := range test.want {
				if !near(got[model], want, 1e-12) {
					t.Errorf("model %s: got %v, want %v", model, got[model], want)
				}
			}
		})
	}
}
