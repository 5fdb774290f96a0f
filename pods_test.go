// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestPodsAreCreatedInBatches(t *testing.T) {
	t.Parallel()
	for count, want := range map[int][]int{0: nil, 1: {1}, 2: {1, 1}, 20: {1, 19}, 500: {1, 32, 467}, 5000: {1, 32, 1024, 3943}} {
		pods := make([]*corev1.Pod, count)
		for i := range pods {
			pods[i] = &corev1.Pod{}
		}
		var sizes []int
		var all []*corev1.Pod
		for batch := range createBatches(pods) {
			sizes = append(sizes, len(batch))
			all = append(all, batch...)
		}
		if diff := cmp.Diff(want, sizes); diff != "" {
			t.Errorf("batches of %d Pods (- want, + got):\n%s", count, diff)
		}
		if !slices.Equal(all, pods) {
			t.Errorf("the batches of %d Pods are not these Pods", count)
		}
	}
}
