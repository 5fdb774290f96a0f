// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package holders

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/cdi"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// kubelet lists these allocations, or fails.
type kubelet struct {
	allocations []podresources.Allocation
	err         error
}

func (k *kubelet) List(context.Context) ([]podresources.Allocation, error) {
	return k.allocations, k.err
}

func holds(pod, resource string, ids ...string) podresources.Allocation {
	return podresources.Allocation{Namespace: "ns", Pod: pod, Container: "main", Resource: resource, DeviceIDs: ids}
}

func TestAGPUThatSomebodyElseHasGivenAwayIsRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kubelet kubelet
		// want is in the error; empty if the GPU is free.
		want string
	}{
		"nobody has it":                  {kubelet{allocations: []podresources.Allocation{holds("a", "falldio.com/gpu", "GPU-2")}}, ""},
		"a Pod of before the switch":     {kubelet{allocations: []podresources.Allocation{holds("a", "falldio.com/gpu", "GPU-2", "GPU-1")}}, "GPU GPU-1 is in use by container main of Pod ns/a as falldio.com/gpu, which got it"},
		"a Pod with a share":             {kubelet{allocations: []podresources.Allocation{holds("a", "falldio.com/gpu-percent", "GPU-1::7", "GPU-1::8")}}, "container main of Pod ns/a as falldio.com/gpu-percent, which"},
		"two Pods with shares":           {kubelet{allocations: []podresources.Allocation{holds("a", "falldio.com/gpu-percent", "GPU-1::7"), holds("b", "falldio.com/gpu-percent", "GPU-1::8")}}, "Pod ns/a as falldio.com/gpu-percent and container main of Pod ns/b"},
		"NVIDIA's device plugin":         {kubelet{allocations: []podresources.Allocation{holds("a", "nvidia.com/gpu", "GPU-1")}}, "as nvidia.com/gpu"},
		"NVIDIA's DRA driver":            {kubelet{allocations: []podresources.Allocation{holds("a", "gpu.nvidia.com", "GPU-1")}}, "as gpu.nvidia.com"},
		"what this driver has given out": {kubelet{allocations: []podresources.Allocation{holds("a", "gpu.falldio.com", "GPU-1")}}, ""},
		"the kubelet does not say":       {kubelet{err: errors.New("no socket")}, "unknown, the kubelet will try again: no socket"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := New(&test.kubelet).Check(t.Context(), []string{"GPU-0", "GPU-1"})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

type minors map[string]int

func (m minors) Of(names []string) cdi.DeviceNodes {
	var nodes cdi.DeviceNodes
	for _, name := range names {
		nodes.GPUs = append(nodes.GPUs, m[name])
	}
	return nodes
}

func TestWhichGPUsTheDevicesOfOtherDriversAre(t *testing.T) {
	t.Parallel()
	snapshot := &gpu.Snapshot{Devices: []gpu.Device{{Info: gpu.Info{UUID: "GPU-a", Minor: 1}}, {Info: gpu.Info{UUID: "GPU-b", Minor: 0}}}}
	translate := Translate(func() *gpu.Snapshot { return snapshot }, minors{"nvidia=1": 1, "eth": 7})
	for device, want := range map[*podresources.ClaimedDevice][]string{
		{Driver: "gpu.nvidia.com", CDI: []string{"nvidia=1"}}:  {"GPU-a"},
		{Driver: "gpu.falldio.com", CDI: []string{"nvidia=1"}}: nil,
		{Driver: "nic.example.com", CDI: []string{"eth"}}:      nil,
		{Driver: "gpu.nvidia.com"}:                             nil,
	} {
		if got := translate(device); !slices.Equal(got, want) {
			t.Errorf("%+v (-want +got):\n%s", device, cmp.Diff(want, got))
		}
	}
}

func TestWhichGPUsOthersHold(t *testing.T) {
	t.Parallel()
	lister := &kubelet{err: errors.New("no socket")}
	others := New(lister)
	if others.Started() || others.Holds("GPU-1") {
		t.Error("something is known before the kubelet has been asked")
	}
	steps := []struct {
		name          string
		kubelet       kubelet
		holds, change bool
	}{
		{"no answer", kubelet{err: errors.New("no socket")}, false, true}, // there has been an attempt
		{"still none", kubelet{err: errors.New("no socket")}, false, false},
		{"a holder", kubelet{allocations: []podresources.Allocation{holds("a", "falldio.com/gpu", "GPU-1")}}, true, true},
		{"the same", kubelet{allocations: []podresources.Allocation{holds("a", "falldio.com/gpu", "GPU-1")}}, true, false},
		{"no answer again", kubelet{err: errors.New("no socket")}, true, false},
		{"another one, too", kubelet{allocations: []podresources.Allocation{holds("a", "falldio.com/gpu", "GPU-1"), holds("b", "falldio.com/gpu", "GPU-2")}}, true, true},
		{"nobody", kubelet{}, false, true},
	}
	for _, step := range steps {
		*lister = step.kubelet
		before := others.Changed()
		others.Refresh(t.Context())
		changed := false
		select {
		case <-before:
			changed = true
		default:
		}
		if !others.Started() || others.Holds("GPU-1") != step.holds || changed != step.change {
			t.Errorf("%s: held %v, changed %v", step.name, others.Holds("GPU-1"), changed)
		}
	}
}
