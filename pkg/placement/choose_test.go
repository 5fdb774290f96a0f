// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	gocmp "cmp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestTheCardsOfAPod(t *testing.T) {
	t.Parallel()
	pairs := func() *nodeBuilder { return aNode("n", 8).groups(0, 0, 1, 1, 2, 2, 3, 3) }
	quads := func() *nodeBuilder { return aNode("n", 8).groups(0, 0, 0, 0, 1, 1, 1, 1) }
	// uneven has a pair, a quad and two cards without NVLink.
	uneven := func() *nodeBuilder { return aNode("n", 8).groups(0, 0, 1, 1, 1, 1) }
	mixed := func() *nodeBuilder { return aNode("n", 4).memories(80, 40, 80, 40) }
	memory := func(shape placement.Shape, least int64) placement.Shape {
		shape.GPUMemory = least
		return shape
	}
	tests := map[string]struct {
		node  *nodeBuilder
		uses  []placement.Use
		shape placement.Shape
		want  []int
	}{
		"no GPU for who needs none":                     {pairs(), nil, shapeOf{CPU: 1}, nil},
		"the first card of an empty node":               {aNode("n", 8), nil, whole(1), []int{0}},
		"all cards":                                     {quads(), nil, whole(8), []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"a pair that is whole":                          {pairs(), []placement.Use{use(100, 0), use(9, 3)}, whole(2), []int{4, 5}},
		"a single one of a pair that is broken":         {pairs(), []placement.Use{use(100, 5)}, whole(1), []int{4}},
		"a single one of a pair with a broken card":     {pairs().broken(6), nil, whole(1), []int{7}},
		"a single one of a pair that is shared":         {pairs(), []placement.Use{use(20, 3)}, whole(1), []int{2}},
		"three are a pair and one":                      {pairs(), nil, whole(3), []int{0, 1, 2}},
		"three are a pair and one of a broken pair":     {pairs(), []placement.Use{use(100, 7)}, whole(3), []int{0, 1, 6}},
		"single ones if no pair is left":                {pairs(), []placement.Use{use(100, 0, 3, 5, 6)}, whole(3), []int{1, 2, 4}},
		"a quad for four":                               {quads(), []placement.Use{use(100, 2)}, whole(4), []int{4, 5, 6, 7}},
		"three of the quad that is broken":              {quads(), []placement.Use{use(100, 6)}, whole(3), []int{4, 5, 7}},
		"the smallest rest for two":                     {quads(), []placement.Use{use(100, 0), use(100, 6, 7)}, whole(2), []int{4, 5}},
		"as few groups as possible":                     {pairs(), []placement.Use{use(100, 0, 2)}, whole(4), []int{4, 5, 6, 7}},
		"five are a quad and one":                       {quads(), []placement.Use{use(100, 0)}, whole(5), []int{1, 4, 5, 6, 7}},
		"a single one that has no NVLink":               {uneven(), nil, whole(1), []int{6}},
		"a single one that has no NVLink, the last":     {uneven(), []placement.Use{use(100, 7)}, whole(1), []int{6}},
		"a single one of the quad if it is broken":      {uneven(), []placement.Use{use(100, 3, 6, 7)}, whole(1), []int{2}},
		"two are the pair, not those without NVLink":    {uneven(), nil, whole(2), []int{0, 1}},
		"two of the broken quad, the pair is in use":    {uneven(), []placement.Use{use(1, 0), use(1, 4)}, whole(2), []int{2, 3}},
		"two without NVLink if groups have no two left": {uneven(), []placement.Use{use(1, 0), use(1, 3, 4, 5)}, whole(2), []int{6, 7}},
		"three of the quad":                             {uneven(), nil, whole(3), []int{2, 3, 4}},
		"five are the quad and one without NVLink":      {uneven(), nil, whole(5), []int{2, 3, 4, 5, 6}},
		"six are both groups":                           {uneven(), nil, whole(6), []int{0, 1, 2, 3, 4, 5}},
		"a small card for who needs little":             {mixed(), nil, memory(whole(1), 10), []int{1}},
		"small cards first":                             {mixed(), nil, whole(3), []int{0, 1, 3}},
		"large cards for who needs much":                {mixed(), nil, memory(whole(2), 41), []int{0, 2}},
		"the large card that is left":                   {mixed(), []placement.Use{use(1, 0)}, memory(whole(1), 80), []int{2}},
		"a group with enough memory": {
			quads().memories(40, 40, 40, 40, 80, 80, 80, 80), nil, memory(whole(3), 60), []int{4, 5, 6}},
		"the cards with memory of two groups": {
			quads().memories(40, 80, 40, 80, 80, 40, 40, 40), nil, memory(whole(3), 60), []int{1, 3, 4}},
		"a share on the fullest card with room":  {aNode("n", 4), []placement.Use{use(60, 0), use(30, 1), use(50, 2)}, share(45), []int{2}},
		"a share on a card that it fills":        {aNode("n", 4), []placement.Use{use(60, 0), use(30, 1)}, share(70), []int{1}},
		"a share on a fresh card if none has it": {aNode("n", 4), []placement.Use{use(60, 0), use(40, 1)}, share(61), []int{2}},
		"a share on a card with memory":          {mixed(), []placement.Use{use(60, 1), use(20, 2)}, memory(share(30), 41), []int{2}},
		"a share never on a broken card":         {aNode("n", 2).broken(0), []placement.Use{use(50, 0)}, share(10), []int{1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, test.node)
			for i, holds := range test.uses {
				run(t, c, string(rune('a'+i)), "n", holds)
			}
			got := find(t, c, test.shape)
			percent := 0
			if len(test.want) > 0 {
				percent = gocmp.Or(test.shape.Share, placement.Card)
			}
			want := placement.Use{CPU: test.shape.CPU, Memory: test.shape.Memory, GPUs: test.want, Percent: percent}
			if diff := cmp.Diff(want, got.Use); diff != "" {
				t.Errorf("use (-want +got):\n%s", diff)
			}
		})
	}
}
