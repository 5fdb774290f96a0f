// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// layouts returns how each GPU is divided; "whole" if it is not.
func layouts(gpus []gpu.Info) []string {
	var all []string
	for i := range gpus {
		layout := gpu.Layout(gpus[i].Slices)
		if !gpus[i].MIG {
			layout = "whole" + layout
		}
		all = append(all, layout)
	}
	return all
}

func TestAProfileDividesGPUs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		yaml string
		want []string
	}{
		"no GPU":             {"count: 2", []string{"whole", "whole"}},
		"all GPUs":           {"{count: 2, mig: [{slices: [3g.40gb, 3g.40gb]}]}", []string{"2 × 3g.40gb", "2 × 3g.40gb"}},
		"the first of three": {"{count: 3, mig: [{gpus: 1, slices: [7g.80gb]}]}", []string{"1 × 7g.80gb", "whole", "whole"}},
		"some in one way, the others in another": {
			"{count: 4, mig: [{gpus: 2, slices: [3g.40gb, 1g.10gb, 1g.10gb+me]}, {slices: [2g.20gb]}]}",
			[]string{"1 × 1g.10gb, 1 × 1g.10gb+me, 1 × 3g.40gb", "1 × 1g.10gb, 1 × 1g.10gb+me, 1 × 3g.40gb", "1 × 2g.20gb", "1 × 2g.20gb"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, layouts(open(t, mustParse(t, test.yaml)).GPUs)); diff != "" {
				t.Errorf("GPUs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASimulatedSlice(t *testing.T) {
	t.Parallel()
	inventory := open(t, mustParse(t, "{count: 2, memory: 80Gi, mig: [{slices: [3g.40gb, 1g.10gb]}]}"))
	want := gpu.Slice{
		UUID: "MIG-d5e28065-b973-51a2-a253-2d414cafaac3", Profile: "1g.10gb", MemoryBytes: 10 << 30, GPUInstance: 8, Capability: gpu.Unknown,
	}
	if diff := cmp.Diff(want, inventory.GPUs[1].Slices[1]); diff != "" {
		t.Errorf("slice (-want +got):\n%s", diff)
	}
	seen := map[string]bool{}
	for _, info := range inventory.GPUs {
		for _, uuid := range info.Usable() {
			if seen[uuid] || !strings.HasPrefix(uuid, "MIG-") {
				t.Errorf("%s is the UUID of a slice", uuid)
			}
			seen[uuid] = true
		}
	}
}

func TestProfilesOfGPUsThatCannotBeDividedSo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ yaml, want string }{
		"more GPUs than there are": {"{count: 2, mig: [{gpus: 3, slices: [7g.80gb]}]}", "mig[0].gpus: Invalid value: 3: 2 GPUs of the node are left to be divided"},
		"nothing is left":          {"{count: 2, mig: [{slices: [7g.80gb]}, {slices: [7g.80gb]}]}", "mig[1].gpus: Invalid value: 0: 0 GPUs of the node are left to be divided"},
		"a negative number":        {"{mig: [{gpus: -1, slices: [7g.80gb]}]}", "mig[0].gpus: Invalid value: -1"},
		"no slices":                {"{mig: [{gpus: 1}]}", "mig[0].slices: Required value: the profiles of each GPU's slices"},
		"a profile that is none":   {"{mig: [{slices: [large]}]}", `mig[0].slices: Invalid value: "large": "large" is no MIG profile, such as 1g.10gb`},
		"slices that do not fit":   {"{mig: [{slices: [4g.40gb, 4g.40gb]}]}", `mig[0].slices: Invalid value: "4g.40gb, 4g.40gb": they have 8 compute slices together, a GPU has 7`},
		"GPUs without memory":      {"{memory: 0, mig: [{slices: [7g.80gb]}]}", "memory: Invalid value"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := ParseProfile([]byte(test.yaml)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestOfASliceOnlyTheMemoryIsMeasured(t *testing.T) {
	t.Parallel()
	source := New(mustParse(t, "{count: 2, mig: [{gpus: 1, slices: [3g.40gb, 3g.40gb]}]}"), "n1", newClock())
	slices := mustOpen(t, source).GPUs[0].Slices
	divided, whole := mustRead(t, source, 0), mustRead(t, source, 1)
	for _, slice := range slices {
		values := divided.Slices[slice.UUID]
		used, free := values[gpu.MemoryUsed], values[gpu.MemoryFree]
		if used <= 0 || used+free != float64(slice.MemoryBytes) || len(values) != 2 {
			t.Errorf("slice %s of %d bytes: %v", slice.UUID, slice.MemoryBytes, values)
		}
	}
	if _, measured := divided.Values[gpu.Utilization]; measured || divided.Values[gpu.MIGMode] != 1 || len(divided.Slices) != 2 {
		t.Errorf("the divided GPU: %v", divided)
	}
	if _, measured := whole.Values[gpu.Utilization]; !measured || whole.Slices != nil {
		t.Errorf("the whole GPU: %v", whole)
	}
}

func TestSlicesThatChangeAreFoundWhenTheSourceIsOpenedAgain(t *testing.T) {
	t.Parallel()
	source := New(mustParse(t, "{count: 2, mig: [{gpus: 1, slices: [7g.80gb]}]}"), "n1", newClock())
	before := mustOpen(t, source).GPUs
	steps := []struct {
		fault Fault
		want  []string
	}{
		{Fault{GPU: new(0), Fault: MIG, Slices: []string{"3g.40gb", "3g.40gb"}}, []string{"2 × 3g.40gb", "whole"}},
		{Fault{GPU: new(0), Fault: MIG, Slices: []string{"3g.40gb", "1g.10gb"}}, []string{"1 × 1g.10gb, 1 × 3g.40gb", "whole"}},
		{Fault{GPU: new(0), Fault: MIG}, []string{"", "whole"}},
		{Fault{GPU: new(0), Fault: Recovered}, []string{"1 × 7g.80gb", "whole"}},
	}
	for _, step := range steps {
		inject(t, source, step.fault)
		if sample, err := source.Read(UUID("n1", 0)); !errors.Is(err, gpu.ErrStale) || sample.UUID == "" {
			t.Errorf("%v: error %v", step.fault, err)
		}
		after := mustOpen(t, source).GPUs
		if diff := cmp.Diff(step.want, layouts(after)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", step.fault, diff)
		}
		mustRead(t, source, 0)
	}
	if diff := cmp.Diff(before, mustOpen(t, source).GPUs); diff != "" {
		t.Errorf("after the recovery (-want +got):\n%s", diff)
	}
}
