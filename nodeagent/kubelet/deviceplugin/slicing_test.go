// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/allocation"
	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
)

const (
	smallResource = "falldio.com/mig-1g.10gb"
	halfResource  = "falldio.com/mig-3g.40gb"
)

// slicesOf returns healthy slices. Their IDs are the GPU and the slice: "a1" is a slice of GPU a.
func slicesOf(ids ...string) []Device {
	var devices []Device
	for _, id := range ids {
		devices = append(devices, Device{ID: id, Healthy: true, NVLinkGroup: allocation.Unknown, NUMANode: allocation.Unknown})
	}
	return devices
}

// node has GPUs a to d. GPU d has a slice of another profile besides.
func gpuOfSlices() map[string]string {
	gpus := map[string]string{}
	for id := range strings.FieldsSeq("a1 a2 a3 b1 b2 c1 c2 c3 c4 d1 d-half") {
		gpus[id] = id[:1]
	}
	return gpus
}

func slicingService(t *testing.T, kubelet *fakeLister) *service {
	t.Helper()
	return &service{
		resource: smallResource, pool: poolOf(t, slicesOf("a1", "a2", "a3", "b1", "b2", "c1", "c2", "c3", "c4", "d1")),
		usage:     NewUsage(kubelet, clocktesting.NewFakeClock(time.Unix(1000, 0)), gpuResource),
		allocator: &slicing{whole: whole{visibility{cdiKind: ofFalldio}}, gpus: gpuOfSlices}, logger: klog.Background(), streams: newStreams(),
	}
}

// held returns who has devices of a resource.
func held(resource string, ids ...string) podresources.Allocation {
	return podresources.Allocation{Namespace: "ns", Pod: "other", Container: "c", Resource: resource, DeviceIDs: ids}
}

func TestTheSlicesThatArePreferred(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		inUse     []podresources.Allocation
		available string
		must      string
		size      int32
		want      string
	}{
		"one, of the GPU that is left with the fewest":       {nil, "a1 a2 a3 b1 b2 c1 c2 c3 c4", "", 1, "b1"},
		"several of one GPU, if it has as many":              {nil, "a1 a2 a3 b1 b2 c1 c2 c3 c4", "", 3, "a1 a2 a3"},
		"of as few GPUs as possible":                         {nil, "a1 a2 a3 b1 b2 c1 c2 c3 c4", "", 6, "b1 b2 c1 c2 c3 c4"},
		"of a GPU that is in use, rather than of a free one": {[]podresources.Allocation{held(smallResource, "c1")}, "a1 b1 b2 c2 c3 c4", "", 1, "c2"},
		"of a GPU that is in use in slices of another profile": {
			[]podresources.Allocation{held(halfResource, "d-half")}, "a1 a2 a3 b1 b2 d1", "", 1, "d1",
		},
		"of a GPU with a slice that somebody else has given out": {
			[]podresources.Allocation{held("nvidia.com/mig-1g.10gb", "c1")}, "a1 b1 b2 c1 c2 c3", "", 2, "c2 c3",
		},
		"of GPUs in use first, and of one free GPU": {
			[]podresources.Allocation{held(smallResource, "a1"), held(smallResource, "b1")}, "a2 a3 b2 c1 c2 c3 c4", "", 4, "a2 a3 b2 c1",
		},
		"of the GPU of which an init container had one": {nil, "a1 b1 b2 c1 c2 c3", "c1", 2, "c1 c2"},
		"all there are": {nil, "a1 b1", "", 2, "a1 b1"},
		"those that somebody else has, if the kubelet insists":  {[]podresources.Allocation{held("nvidia.com/mig-1g.10gb", "a1")}, "a1 b1", "", 2, "a1 b1"},
		"not of a GPU that is claimed as a whole, if it can be": {[]podresources.Allocation{held("gpu.nvidia.com", "c")}, "a1 a2 c1", "", 1, "a1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := slicingService(t, &fakeLister{inUse: test.inUse})
			response, err := s.GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{
				ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
					AvailableDeviceIDs: strings.Fields(test.available), MustIncludeDeviceIDs: strings.Fields(test.must), AllocationSize: test.size,
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, strings.Join(response.ContainerResponses[0].DeviceIDs, " ")); diff != "" {
				t.Errorf("slices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSlicesOfOthersAreTheLastResort(t *testing.T) {
	t.Parallel()
	s := &slicing{gpus: gpuOfSlices}
	list, _ := poolOf(t, slicesOf("a1", "a2", "b1", "b2")).list()
	assigned := &assignedDevices{whole: map[string]bool{"a1": true, "b1": true}}
	for size, want := range []string{"", "a2", "a2 b2", "a1 a2 b2"} {
		chosen, err := s.choose(list, &request{available: []string{"a1", "a2", "b1", "b2"}, size: size}, assigned, inUse{})
		if diff := cmp.Diff(want, strings.Join(chosen, " ")); diff != "" || err != nil {
			t.Errorf("%d slices (-want +got), error %v:\n%s", size, err, diff)
		}
	}
	busy := inUse{"a3": users{whole: []string{"a container"}}}
	chosen, err := s.choose(list, &request{available: []string{"a1", "b2"}, size: 1}, assigned, busy)
	if diff := cmp.Diff([]string{"b2"}, chosen); diff != "" || err != nil {
		t.Errorf("although their GPU is in use (-want +got), error %v:\n%s", err, diff)
	}
	if chosen, err := s.choose(list, &request{available: []string{"a1"}, size: 2}, assigned, inUse{}); err == nil {
		t.Errorf("of too few were chosen: %v", chosen)
	}
}

func TestASliceIsNotGivenOutTwice(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		inUse podresources.Allocation
		id    string
		want  string // an error
	}{
		"another slice is in use":                   {held(smallResource, "a2"), "a1", ""},
		"it is in use, which the kubelet knows":     {held(smallResource, "a1"), "a1", ""},
		"somebody else has given it out":            {held("nvidia.com/mig-1g.10gb", "a1"), "a1", "GPU a1 is in use by container c of Pod ns/other as nvidia.com/mig-1g.10gb"},
		"somebody else calls a slice a GPU":         {held("nvidia.com/gpu", "a1"), "a1", "GPU a1 is in use by container c of Pod ns/other as nvidia.com/gpu"},
		"a claim has a part of its GPU":             {held("gpu.nvidia.com", "a"), "a1", "GPU a is in use by container c of Pod ns/other as gpu.nvidia.com, so its slice a1 can't be allocated"},
		"a container has its GPU from before":       {held(gpuResource, "a"), "a1", "GPU a is in use by container c of Pod ns/other, so its slice a1"},
		"a container has a share of it from before": {held(percentResource, "a::0"), "a1", "so its slice a1 can't be allocated"},
		"somebody else has given out another GPU":   {held("nvidia.com/gpu", "b"), "a1", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := slicingService(t, &fakeLister{inUse: []podresources.Allocation{test.inUse}})
			response, err := allocate(t, s, []string{test.id})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got error %v, want %q", err, test.want)
			}
			if err == nil && response.ContainerResponses[0].CdiDevices[0].Name != "falldio.com/gpu=a1" {
				t.Errorf("the container gets %v", response)
			}
		})
	}
}

func TestSlicesThatAreGoneLeaveThePoolUnlessTheyAreHeld(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, slicesOf("a1", "a2", "a3"))
	set := func(ids ...string) {
		if err := pool.Set(slicesOf(ids...), nil); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		if got := describe(pool); got != want {
			t.Errorf("the pool has %q, want %q", got, want)
		}
	}
	set("a3")
	expect("a3 -a1 -a2")
	_, changed := pool.list()
	pool.Release("a1")
	expect("a3 -a1")
	select {
	case <-changed:
	default:
		t.Error("the kubelet is not told")
	}
	_, changed = pool.list()
	pool.Release("a1", "a3")
	select {
	case <-changed:
		t.Error("nothing has changed")
	default:
	}
	set("a1", "a3")
	expect("a1 a3")
	set()
	pool.Release()
	expect("")
	if pool.ready() {
		t.Error("a plugin would register without any device")
	}
}
