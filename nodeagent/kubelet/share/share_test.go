// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package share

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAShareTellsItsGPU(t *testing.T) {
	t.Parallel()
	for number := range PerGPU {
		id := ID("GPU-6f0a1d5c-8a59-3b0e-a4b6-0ed8a3b1c7b2", number)
		if gpu, isShare := Of(id); gpu != "GPU-6f0a1d5c-8a59-3b0e-a4b6-0ed8a3b1c7b2" || !isShare {
			t.Errorf("%s is of %s, a share: %v", id, gpu, isShare)
		}
		if len(id) > 63 {
			t.Errorf("%s is too long for a device of the kubelet", id)
		}
	}
}

func TestWhatIsNoShareStandsForItself(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "GPU-a", "rdma-0", "GPU-a:1", "::1", "GPU-a::", "GPU-a::x", "GPU-a::100", "GPU-a::-1", "GPU-a::+1", "GPU-a::01"} {
		if gpu, isShare := Of(id); gpu != id || isShare {
			t.Errorf("%q is of %q, a share: %v", id, gpu, isShare)
		}
	}
}

func TestGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ ids, want []string }{
		"nothing":              {nil, []string{}},
		"whole GPUs":           {[]string{"b", "a"}, []string{"a", "b"}},
		"shares of one GPU":    {[]string{"a::10", "a::9", "a::0"}, []string{"a"}},
		"shares of two GPUs":   {[]string{"b::1", "a::1", "b::2"}, []string{"a", "b"}},
		"a GPU and its shares": {[]string{"a::1", "a"}, []string{"a"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, GPUs(test.ids)); diff != "" {
				t.Errorf("GPUs() (-want +got):\n%s", diff)
			}
		})
	}
}
