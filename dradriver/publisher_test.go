// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"falldio.github.io/gpu-controller/dradriver/devices"
	"falldio.github.io/gpu-controller/nodeagent/hardware/gpu"
)

// describeTaints returns the devices with their taints.
func describeTaints(pools resourceslice.DriverResources) string {
	var list []string
	for _, slice := range pools.Pools["node-1"].Slices {
		for _, device := range slice.Devices {
			list = append(list, device.Name)
			for _, taint := range device.Taints {
				list = append(list, "("+taint.Value+")")
			}
		}
	}
	return strings.Join(list, " ")
}

// TestSlicesChangeOnlyWithTheGPUs passes a node through snapshots; the answer to each is what is published.
func TestSlicesChangeOnlyWithTheGPUs(t *testing.T) {
	t.Parallel()
	gpus := func(changes ...func([]gpu.Device)) *gpu.Snapshot {
		snapshot := &gpu.Snapshot{Taken: beginning, Devices: []gpu.Device{{Info: gpu.Info{UUID: "GPU-a"}}, {Info: gpu.Info{UUID: "GPU-b", Index: 1}}}}
		for _, change := range changes {
			change(snapshot.Devices)
		}
		return snapshot
	}
	fault := func(reason string) func([]gpu.Device) {
		return func(list []gpu.Device) { list[1].Fault = &gpu.Fault{Reason: reason, Since: beginning} }
	}
	steps := []struct {
		name     string
		snapshot *gpu.Snapshot
		want     string
	}{
		{"before the first poll", &gpu.Snapshot{}, "nothing"},
		{"without a driver", &gpu.Snapshot{Problem: gpu.ErrUnavailable}, "nothing"},
		{"the first poll", gpus(), "gpu-a gpu-b"},
		{"another poll", gpus(), "nothing"},
		{"other measurements", gpus(func(list []gpu.Device) { list[0].Values = gpu.Values{gpu.Utilization: 1} }), "nothing"},
		{"a fault", gpus(fault("XID79")), "gpu-a gpu-b (XID79)"},
		{"the same fault", gpus(fault("XID79")), "nothing"},
		{"another fault", gpus(fault("Lost")), "gpu-a gpu-b (Lost)"},
		{"a GPU less", &gpu.Snapshot{Taken: beginning, Devices: gpus().Devices[:1]}, "gpu-a"},
		{"it is back", gpus(), "gpu-a gpu-b"},
		{"no GPU at all", &gpu.Snapshot{Taken: beginning}, ""},
		{"still none", &gpu.Snapshot{Taken: beginning}, "nothing"},
	}
	published := make(chan string, 1)
	fake := &fakeGPUs{snapshot: steps[0].snapshot}
	p := &publisher{
		node: "node-1", gpus: fake,
		options: devices.Options{Effect: resourceapi.DeviceTaintEffectNoSchedule, Described: func(string) bool { return true }, Held: func(string) bool { return false }},
		publish: func(_ context.Context, pools resourceslice.DriverResources) error {
			published <- describeTaints(pools)
			return nil
		},
	}
	for _, step := range steps {
		got := "nothing"
		if step.snapshot.Known() {
			if err := p.update(t.Context(), step.snapshot); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case got = <-published:
		default:
		}
		if got != step.want {
			t.Errorf("%s: %q is published, want %q", step.name, got, step.want)
		}
	}
}

// TestNothingIsPublishedBeforeTheGPUsAreDescribed waits for the container runtime to know them.
func TestNothingIsPublishedBeforeTheGPUsAreDescribed(t *testing.T) {
	t.Parallel()
	polled, described := make(chan struct{}), make(chan struct{})
	fake := &fakeGPUs{snapshot: &gpu.Snapshot{Taken: beginning, Devices: []gpu.Device{{Info: gpu.Info{UUID: "GPU-a"}}}}, changed: polled}
	started, looked, published := make(chan bool, 2), make(chan struct{}, 2), make(chan string, 2)
	started <- false
	started <- true
	p := &publisher{
		node: "node-1", gpus: fake, options: devices.Options{Described: func(string) bool { return true }, Held: func(string) bool { return false }},
		started:   func() bool { answer := <-started; looked <- struct{}{}; return answer },
		described: func() <-chan struct{} { return described }, held: func() <-chan struct{} { return nil },
		publish: func(_ context.Context, pools resourceslice.DriverResources) error {
			published <- describeTaints(pools)
			return errors.New("the end")
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- p.run(t.Context()) }()
	<-looked
	if len(published) > 0 {
		t.Error("GPUs are published that containers can't get yet")
	}
	close(described)
	if err := <-ended; err == nil || err.Error() != "the end" {
		t.Errorf("it ends with %v", err)
	}
	if got := <-published; got != "gpu-a" {
		t.Errorf("%q is published", got)
	}
}

func TestTheKubeletLearnsTheHealth(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "GPU-a", "GPU-b")
	f.gpus.snapshot.Devices[1].Fault = &gpu.Fault{Reason: "ECC"}
	reports := make(chan kubeletplugin.DeviceHealthReport)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.WatchHealthStatus(ctx, reports) }()
	var list []string
	for _, device := range (<-reports).Devices {
		list = append(list, fmt.Sprintf("%s/%s %s %s", device.PoolName, device.DeviceName, device.Health, device.Message))
	}
	if diff := cmp.Diff([]string{"node-1/gpu-a Healthy ", "node-1/gpu-b Unhealthy ECC"}, list); diff != "" {
		t.Errorf("health (-want +got):\n%s", diff)
	}
	close(f.gpus.changed)
	<-reports // it reports what has changed
	cancel()
	for {
		select {
		case <-reports:
			continue
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("it does not end")
		}
		break
	}
}

func TestTheDriverIsReadyWhenTheKubeletKnowsIt(t *testing.T) {
	t.Parallel()
	n := &node{}
	hear := func(request any) {
		_, err := n.noteRegistration(t.Context(), request, nil, func(context.Context, any) (any, error) { return nil, nil })
		if err != nil {
			t.Error(err)
		}
	}
	is := func(when, want string) {
		t.Helper()
		got := ""
		if err := n.ready(nil); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	is("at the start", "the GPUs have not been published yet")
	n.published.Store(new(8))
	hear(&registerapi.InfoRequest{})
	is("when the kubelet has found it", "the driver is not registered with the kubelet yet")
	hear(&registerapi.RegistrationStatus{PluginRegistered: true})
	is("when it is registered", "")
	hear(&registerapi.RegistrationStatus{PluginRegistered: false, Error: "unknown version"})
	is("when the kubelet refuses it", "the driver is not registered with the kubelet yet")
}
