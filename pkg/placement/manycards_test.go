// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/placement/packing"
)

// TestAllCardsOfANodeAreUsed fills nodes of many cards to the last one: racks of 72 that NVLink connects, and cards
// that a device plugin offers many times over.
func TestAllCardsOfANodeAreUsed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cards int
		group int // of all cards; -1 for none
		shape placement.Shape
		pods  int
	}{
		"a rack that NVLink connects, as a whole":    {72, 0, whole(72), 1},
		"a rack that NVLink connects, in trays":      {72, 0, whole(4), 18},
		"a device plugin's 4 cards, 25 times each":   {100, -1, whole(1), 100},
		"shares of more cards than a byte numbers":   {300, -1, placement.Shape{Share: 60}, 300},
		"a device plugin's 8 cards, 100 times each":  {800, -1, whole(8), 100},
		"as many cards as a node may have":           {placement.MaxCards, -1, whole(2), placement.MaxCards / 2},
		"as many cards as a node may have, together": {placement.MaxCards, 0, whole(placement.MaxCards), 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := placement.NewCluster(packing.New(packing.Default()))
			set(t, c, aNode("n", test.cards).size(1<<20, 1<<20, test.pods).groups(slices.Repeat([]int{test.group}, test.cards)...))
			var used []int
			request := c.Request(test.shape)
			for i := range test.pods {
				place, found := c.Find(request, c.Root())
				if !found {
					t.Fatalf("there is no room for Pod %d of %d", i+1, test.pods)
				}
				used = append(used, place.GPUs...)
				run(t, c, fmt.Sprint(i), place.Node, place.Use)
			}
			slices.Sort(used)
			if different := slices.Compact(used); len(different) != test.cards {
				t.Errorf("%d of %d cards are used", len(different), test.cards)
			}
			if _, found := c.Find(request, c.Root()); found {
				t.Error("there is room for another Pod")
			}
		})
	}
}

func TestPodsAreEvictedFromTheLastCardsOfANode(t *testing.T) {
	t.Parallel()
	const cards = 100
	c := clusterOf(t, aNode("n", cards).size(1<<20, 1<<20, cards))
	for i := range cards {
		run(t, c, fmt.Sprint(i), "n", use(100, i))
	}
	rules := placement.PreemptionRules{Victim: func(pod *placement.Pod) (int32, bool) { return 0, pod.GPUs[0] >= cards-2 }}
	got, found, err := c.Preempt(gangOf(whole(2), 1, 1), rules)
	if err != nil || !found {
		t.Fatalf("no victims, error %v", err)
	}
	if want := []string{"98", "99"}; !slices.Equal(got.Victims, want) {
		t.Errorf("the victims are %v, want %v", got.Victims, want)
	}
}
