// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"slices"
	"testing"
)

// FuzzOf reads any ID. A share leads to its GPU and back; anything else stands for itself.
func FuzzOf(f *testing.F) {
	for _, id := range []string{"GPU-a::7", "GPU-a", "::", "a::b::1", "a::+1", "a::01", "a::1::2"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		gpu, isShare := Of(id)
		switch {
		case !isShare && gpu != id:
			t.Errorf("%q is no share, but stands for %q", id, gpu)
		case isShare && !slices.ContainsFunc(numbers(), func(number int) bool { return ID(gpu, number) == id }):
			t.Errorf("%q is taken for a share of %q, which has none of this name", id, gpu)
		}
		if gpus := GPUs([]string{id, id, gpu}); !isShare && !slices.Equal(gpus, []string{id}) {
			t.Errorf("the GPUs of %q are %q", id, gpus)
		}
	})
}

func numbers() (all []int) {
	for number := range PerGPU {
		all = append(all, number)
	}
	return all
}
