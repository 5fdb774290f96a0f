// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package spelling_test

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/spelling"
)

func TestTheNearestNameIsOneThatTheUserMayHaveMeant(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		known []string
		want  string
	}{
		{"rakc", []string{"zone", "rack", "leaf"}, "rack"},
		{"gpuAmount", []string{"gpu", "gpuMemory", "gpu-amount"}, "gpu-amount"},
		{"gpu-memory", []string{"gpu", "gpuMemory", "gpu-amount"}, "gpuMemory"},
		{"GPU", []string{"gpu", "cpu"}, "gpu"},
		{"gpus", []string{"gpu", "cpu"}, "gpu"},
		{"gpu-high", []string{"gpu-high-priority"}, ""},
		{"High", []string{"gpu-low-priority", "gpu-high-priority"}, "gpu-high-priority"},
		{"gp-high-priority", []string{"gpu-low-priority", "gpu-high-priority"}, "gpu-high-priority"},
		{"pytorch", []string{"mpi", "pytorch-ddp"}, "pytorch-ddp"},
		{"pytorhc", []string{"mpi", "pytorch-ddp"}, "pytorch-ddp"},
		{"a100", []string{"h100-80gb-hbm3"}, ""},
		{"x", []string{"a", "b"}, ""},
		{"row", []string{"zone", "rack", "leaf"}, ""},
		{"", []string{"a"}, ""},
		{"rack", nil, ""},
	} {
		if got := spelling.Nearest(test.name, test.known); got != test.want {
			t.Errorf("of %v, %q is nearest to %q, want %q", test.known, got, test.name, test.want)
		}
	}
}

func TestTheDistanceCountsCharacters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		from, to string
		want     int
	}{{"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"rakc", "rack", 2}, {"h100", "h100", 0}} {
		if got := spelling.Distance(test.from, test.to); got != test.want {
			t.Errorf("from %q to %q: %d, want %d", test.from, test.to, got, test.want)
		}
	}
}
