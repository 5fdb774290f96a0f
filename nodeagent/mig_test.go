// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/deviceplugin"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

// migFixture runs device plugins of slices without a kubelet.
type migFixture struct {
	*testing.T
	*migPlugins
	ctx   context.Context //nolint:containedctx // that of the group
	group *wait.Group
}

// newMIGFixture returns plugins that can't give the undescribed slice to containers.
func newMIGFixture(t *testing.T, undescribed string, reserved ...string) *migFixture {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	group := &wait.Group{}
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
	config := deviceplugin.Config{Dir: t.TempDir(), Clock: clock.RealClock{}}
	available := func(uuid string) bool { return uuid != undescribed }
	return &migFixture{T: t, migPlugins: newMIGPlugins(&config, available, reserved), ctx: ctx, group: group}
}

// divided returns a GPU with slices "PROFILE=UUID".
func divided(uuid string, slices ...string) gpu.Device {
	device := gpu.Device{Info: gpu.Info{UUID: uuid, MIG: true, NUMANode: 1}}
	for _, text := range slices {
		profile, id, _ := strings.Cut(text, "=")
		device.Slices = append(device.Slices, gpu.Slice{UUID: id, Profile: profile, MemoryBytes: 10 << 30})
	}
	return device
}

func (f *migFixture) see(devices ...gpu.Device) {
	f.update(f.ctx, f.group, &gpu.Snapshot{Devices: devices})
}

// expect compares the plugins with "RESOURCE: ID, -ID …", where - is for an unhealthy device.
func (f *migFixture) expect(what string, want ...string) {
	f.Helper()
	var got []string
	for _, plugin := range f.plugins() {
		line := []string{plugin.Resource() + ":"}
		for _, device := range plugin.Pool().Devices() {
			sign := ""
			if !device.Healthy {
				sign = "-"
			}
			line = append(line, sign+device.ID)
		}
		got = append(got, strings.Join(line, " "))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// holding is what the kubelet lists.
func holding(resource string, ids ...string) podresources.Allocation {
	return podresources.Allocation{Namespace: "ns", Pod: "p", Container: "c", Resource: resource, DeviceIDs: ids}
}

func TestEachProfileIsAResourceAsLongAsTheAgentRuns(t *testing.T) {
	t.Parallel()
	f := newMIGFixture(t, "")
	f.see(gpu.Device{Info: gpu.Info{UUID: "GPU-w"}})
	f.expect("without slices")
	f.see(divided("GPU-a", "1g.10gb=MIG-1", "3g.40gb=MIG-2"), divided("GPU-b", "1g.10gb=MIG-3"))
	f.expect("of two profiles", "falldio.com/mig-1g.10gb: MIG-1 MIG-3", "falldio.com/mig-3g.40gb: MIG-2")
	f.observe([]podresources.Allocation{holding("falldio.com/mig-1g.10gb", "MIG-1")})
	f.see(divided("GPU-a", "1g.10gb+me=MIG-4"), divided("GPU-b", "1g.10gb=MIG-3"))
	f.expect("divided anew, but the kubelet does not yet say who has slices",
		"falldio.com/mig-1g.10gb: MIG-3 -MIG-1", "falldio.com/mig-1g.10gb.me: MIG-4", "falldio.com/mig-3g.40gb: -MIG-2")
	f.observe([]podresources.Allocation{holding("falldio.com/mig-1g.10gb", "MIG-1")})
	f.expect("what nobody has goes", "falldio.com/mig-1g.10gb: MIG-3 -MIG-1", "falldio.com/mig-1g.10gb.me: MIG-4", "falldio.com/mig-3g.40gb:")
	f.observe(nil)
	f.expect("the container has ended", "falldio.com/mig-1g.10gb: MIG-3", "falldio.com/mig-1g.10gb.me: MIG-4", "falldio.com/mig-3g.40gb:")
}

func TestSlicesAreAsHealthyAsTheirGPU(t *testing.T) {
	t.Parallel()
	f := newMIGFixture(t, "MIG-3")
	broken := divided("GPU-a", "1g.10gb=MIG-1", "1g.10gb=MIG-2")
	broken.Fault = &gpu.Fault{Reason: "XID79"}
	f.see(broken, divided("GPU-b", "1g.10gb=MIG-3", "1g.10gb=MIG-4"))
	f.expect("a fault, and a slice that is not described", "falldio.com/mig-1g.10gb: -MIG-1 -MIG-2 -MIG-3 MIG-4")
	broken.Fault = nil
	f.see(broken)
	f.expect("the fault is gone, and so is the other GPU", "falldio.com/mig-1g.10gb: MIG-1 MIG-2 -MIG-3 -MIG-4")
	if got := *f.gpus.Load(); !cmp.Equal(got, map[string]string{"MIG-1": "GPU-a", "MIG-2": "GPU-a"}) {
		t.Errorf("the slices' GPUs are %v", got)
	}
}

// A kubelet could not restart a container whose device nobody offers.
func TestASliceThatAContainerHasIsOfferedAfterARestart(t *testing.T) {
	t.Parallel()
	f := newMIGFixture(t, "", "falldio.com/mig-7g.80gb")
	f.observe([]podresources.Allocation{
		holding("falldio.com/mig-1g.10gb", "MIG-1"), holding("nvidia.com/mig-1g.10gb", "MIG-2"), holding("falldio.com/mig-7g.80gb", "MIG-3"),
	})
	select {
	case <-f.wake():
	default:
		t.Error("nobody is told that a plugin is missing")
	}
	f.see()
	f.expect("without the GPU", "falldio.com/mig-1g.10gb: -MIG-1")
	f.see(divided("GPU-a", "1g.10gb=MIG-1", "1g.10gb=MIG-4", "7g.80gb=MIG-3"))
	f.expect("with it", "falldio.com/mig-1g.10gb: MIG-1 MIG-4")
	f.observe([]podresources.Allocation{holding("falldio.com/mig-1g.10gb", "MIG-1")})
	select {
	case <-f.wake():
		t.Error("no plugin is missing")
	default:
	}
}

func TestWithoutSlicesThereAreNoPlugins(t *testing.T) {
	t.Parallel()
	var none *migPlugins
	none.observe([]podresources.Allocation{holding("falldio.com/mig-1g.10gb", "MIG-1")})
	none.update(t.Context(), nil, &gpu.Snapshot{Devices: []gpu.Device{divided("GPU-a", "1g.10gb=MIG-1")}})
	if len(none.plugins()) != 0 || none.wake() != nil {
		t.Error("there is something")
	}
}

func TestWhenSlicesAreServed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		arguments string
		want      bool
	}{
		"by default":                       {"", true},
		"with shares excluded":             {"--resource=falldio.com/gpu-percent=none", true},
		"not if they are excluded":         {"--mig=none", false},
		"not without GPUs":                 {"--resource=falldio.com/gpu=none", false},
		"not with simulated devices":       {"--resource=falldio.com/gpu=simulated:8", false},
		"not with GPUs under another name": {"--resource=nvidia.com/gpu=gpus", false},
		"not if somebody else gives out":   {"--mode=observe", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, err := parse(t, nil, strings.Fields("--node-name=n1 "+test.arguments)...)
			if err != nil {
				t.Fatal(err)
			}
			spec, served := opts.slicedGPUs()
			if served != test.want || served && spec.Environment != "NVIDIA_VISIBLE_DEVICES" {
				t.Errorf("served: %t, with the variable %q", served, spec.Environment)
			}
		})
	}
}
