// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
)

// The published series of allocations begin with these Pods: docs/benchmarks.md.
func TestTheOrderIsThePublishedOne(t *testing.T) {
	var pods []dataset.Pod
	for i := range 8152 {
		pods = append(pods, whole(fmt.Sprintf("pod-%04d", i), 1))
	}
	slices.Reverse(pods) // the order in the file does not matter
	got := arrivals(pods, 42, 3, 0).pods
	var names []string
	for _, p := range got[:5] {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"pod-0255", "pod-1685", "pod-6784", "pod-4463", "pod-0602"}, names); diff != "" {
		t.Errorf("first arrivals (-want +got):\n%s", diff)
	}
	if len(got) != len(pods) {
		t.Errorf("%d arrivals of %d Pods without capacity", len(got), len(pods))
	}
}

func TestPodsArriveAgainUntilTheDemandWouldExceedTheLimit(t *testing.T) {
	pods := []dataset.Pod{whole("a", 4)}
	// The limit is 13 GPUs: after three Pods with 4 GPUs a fourth is counted with
	// one GPU and still comes.
	if got := len(arrivals(pods, 1, 1, 10*dataset.MilliPerCard).pods); got != 4 {
		t.Errorf("%d arrivals, want 4", got)
	}
}

func TestNodesAreRankedAgainWithEachSeed(t *testing.T) {
	w := tiny(t)
	first, again, other := w.arrivals(1), w.arrivals(1), w.arrivals(2)
	if !slices.Equal(first.ranks, again.ranks) || slices.Equal(first.ranks, other.ranks) {
		t.Errorf("ranks %v, again %v, with another seed %v", first.ranks, again.ranks, other.ranks)
	}
	sorted := slices.Sorted(slices.Values(first.ranks))
	for i := range sorted {
		if sorted[i] != i {
			t.Fatalf("ranks %v are no permutation", first.ranks)
		}
	}
}
