// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheMemoryOfAShareIsLimitedWhereTheHookCan(t *testing.T) {
	t.Parallel()
	devices := gpus("a", "b")
	devices[0].MemoryMiB = 81559
	daemon := &MPS{PipeDirectory: "/run/mps", Runs: func() bool { return true }}
	can, cant := func() bool { return true }, func() bool { return false }
	limits := []string{"NVIDIA_GPU_MEMORY_LIMIT=37517", "NVIDIA_GPU_MEMORY_REQUEST=0"}
	tests := map[string]struct {
		sharing Sharing
		gpu     string
		want    []string
	}{
		"it can":                 {Sharing{LimitsMemory: can}, "a", append([]string{"GPU_SHARE_PERCENT=46"}, limits...)},
		"it can't yet":           {Sharing{LimitsMemory: cant}, "a", []string{"GPU_SHARE_PERCENT=46"}},
		"it is not meant to":     {Sharing{}, "a", []string{"GPU_SHARE_PERCENT=46"}},
		"memory of unknown size": {Sharing{LimitsMemory: can}, "b", []string{"GPU_SHARE_PERCENT=46"}},
		"beside MPS": {Sharing{MPS: daemon, LimitsMemory: can}, "a", append([]string{
			"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=46", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=37517M", "CUDA_MPS_PIPE_DIRECTORY=/run/mps", "GPU_SHARE_PERCENT=46",
		}, limits...)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sharesService(poolOf(t, devices), nil)
			s.allocator = (&Config{CDIKind: ofFalldio, Sharing: &test.sharing}).allocator()
			response, err := allocate(t, s, sharesOf(test.gpu, 0, 46))
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(given(response), func(word string) bool { return word == "falldio.com/gpu="+test.gpu })
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if limited := LimitsMemory(response.ContainerResponses[0]); limited != slices.Contains(test.want, limits[0]) {
				t.Errorf("the answer limits memory: %v", limited)
			}
		})
	}
}
