// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"testing"
)

func TestWholeGPUsAreOnTheFewestNUMANodes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		numa  []int
		taken []int
		gpus  int
		want  []int
	}{
		"four of eight are on one":                {[]int{0, 1, 0, 1, 0, 1, 0, 1}, nil, 4, []int{0, 2, 4, 6}},
		"two go where only two are left":          {[]int{0, 0, 0, 0, 1, 1, 1, 1}, []int{4, 5}, 2, []int{6, 7}},
		"three go where three are left":           {[]int{0, 0, 0, 0, 1, 1, 1, 1}, []int{4, 5}, 3, []int{0, 1, 2}},
		"five take all of one and one of another": {[]int{0, 0, 0, 0, 1, 1, 1, 1}, nil, 5, []int{0, 1, 2, 3, 4}},
		"one goes where the fewest are":           {[]int{0, 0, 1}, nil, 1, []int{2}},
		"unknown NUMA nodes are one":              {[]int{-1, -1, -1}, []int{0}, 2, []int{1, 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NewCluster(firstFit{})
			node := Node{Name: "n", Slots: 10}
			for _, numa := range test.numa {
				node.GPUs = append(node.GPUs, GPU{NUMA: numa})
			}
			if err := c.SetNode(node); err != nil {
				t.Fatal(err)
			}
			if len(test.taken) > 0 {
				if err := c.Place(Pod{Name: "p", Node: "n", Use: Use{GPUs: test.taken, Percent: Card}}); err != nil {
					t.Fatal(err)
				}
			}
			place, found := c.Find(c.Request(Shape{GPUs: test.gpus}), c.Root())
			if got := fmt.Sprint(place.GPUs); !found || got != fmt.Sprint(test.want) {
				t.Errorf("the GPUs are %s, want %v", got, test.want)
			}
		})
	}
}
