// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
)

func scoresOf(places ...int64) fwk.NodeScoreList {
	list := make(fwk.NodeScoreList, len(places))
	for i, place := range places {
		list[i] = fwk.NodeScore{Name: fmt.Sprint("n", i), Score: place}
	}
	return list
}

func TestTheBestNodeIsAloneAtTheTop(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ places, want fwk.NodeScoreList }{
		"no node":                       {scoresOf(), scoresOf()},
		"one node":                      {scoresOf(7), scoresOf(100)},
		"two nodes":                     {scoresOf(3, 0), scoresOf(99, 100)},
		"in any order, with gaps":       {scoresOf(40, 2, 9, 11), scoresOf(33, 100, 99, 66)},
		"others have filtered the best": {scoresOf(5, 6, 7), scoresOf(100, 99, 49)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status := (&Plugin{}).NormalizeScore(t.Context(), nil, nil, test.places); !status.IsSuccess() {
				t.Fatal(status)
			}
			if diff := cmp.Diff(test.want, test.places); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScoresOfManyNodesAreInTheirRangeAndInOrder(t *testing.T) {
	t.Parallel()
	for _, count := range []int{2, 99, 100, 101, 5000} {
		places := make([]int64, count)
		for i, place := range rand.New(rand.NewPCG(1, uint64(count))).Perm(count) {
			places[i] = int64(place)
		}
		scores := scoresOf(places...)
		(&Plugin{}).NormalizeScore(t.Context(), nil, nil, scores)
		byPlace := make([]int64, count)
		for i, place := range places {
			byPlace[place] = scores[i].Score
		}
		if byPlace[0] != fwk.MaxScore || byPlace[1] >= fwk.MaxScore {
			t.Errorf("of %d nodes the best two have %d and %d", count, byPlace[0], byPlace[1])
		}
		for i := 1; i < count; i++ {
			if byPlace[i] > byPlace[i-1] || byPlace[i] < fwk.MinScore {
				t.Fatalf("of %d nodes number %d has %d, the one before %d", count, i, byPlace[i], byPlace[i-1])
			}
		}
	}
}
