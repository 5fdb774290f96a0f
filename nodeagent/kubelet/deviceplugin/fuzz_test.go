// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// atOnce is a tracker that waits for nobody.
type atOnce struct{ *PodAllocationTracker }

func (atOnce) Await(context.Context, string, int) {}

// FuzzRequests sends any requests of the kubelet to the plugins for whole GPUs, for shares and for
// slices, beside a Pod with any annotation. What is preferred is available, is as much as was asked
// for, and has what it must have; what is allocated is known, healthy and, for shares, of one GPU.
// The IDs are separated by spaces.
func FuzzRequests(f *testing.F) {
	f.Add("a b c d", "", "a b", int32(2), `{"version":"v1","containers":{"c":{"falldio.com/gpu":["c","d"]}}}`)
	f.Add("a::0 a::1 a::2 b::0", "a::1", "a::0 a::1", int32(2), `{"version":"v1","containers":{"c":{"falldio.com/gpu-percent":["a"]}}}`)
	f.Add("a1 a2 b1 c1 c2", "b1", "a1 b1", int32(2), ``)
	f.Add("a a a", "z", "", int32(-1), `{"version":"v1","containers":{"c":{"falldio.com/gpu":["a","a"]}}}`)
	f.Add("", "a b", "a a", int32(2147483647), `{}`)
	f.Add("a::-1 ::", "::", "a:: a::100", int32(0), `[`)
	devices := gpus("a", "b", "c", "d")
	devices[3].Healthy = false
	f.Fuzz(func(t *testing.T, available, must, allocated string, size int32, annotation string) {
		pod := podWithGPUs(t, "x", 1, "c", "d")
		pod.Annotations[inventory.AssignmentAnnotation] = annotation
		tracker := atOnce{trackerOf(pod)}
		services := map[string]*service{
			"whole":  {resource: gpuResource, counterpart: percentResource, pool: poolOf(t, devices), tracker: tracker, allocator: &whole{visibility{cdiKind: ofFalldio}}},
			"shares": {resource: percentResource, counterpart: gpuResource, pool: poolOf(t, devices), tracker: tracker, allocator: &sharing{visibility: visibility{envVar: "VISIBLE"}}},
			"slices": {resource: smallResource, pool: poolOf(t, slicesOf("a1", "a2", "a3", "b1", "b2", "c1", "d1")), allocator: &slicing{whole: whole{visibility{cdiKind: ofFalldio}}, gpus: gpuOfSlices}},
		}
		request := &pluginapi.ContainerPreferredAllocationRequest{AvailableDeviceIDs: strings.Fields(available), MustIncludeDeviceIDs: strings.Fields(must), AllocationSize: size}
		for name, s := range services {
			s.logger, s.streams = klog.Logger{}, newStreams()
			checkPreferred(t, name, s, request)
			checkAllocated(t, name, s, strings.Fields(allocated))
		}
	})
}

func checkPreferred(t *testing.T, name string, s *service, request *pluginapi.ContainerPreferredAllocationRequest) {
	t.Helper()
	response, err := s.GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{request}})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	chosen := response.ContainerResponses[0].DeviceIDs
	if len(chosen) == 0 || !makesSense(request) {
		return // the kubelet chooses
	}
	if len(chosen) != int(request.AllocationSize) {
		t.Errorf("%s: %q are preferred, %d were asked for", name, chosen, request.AllocationSize)
	}
	for i, id := range chosen {
		if !slices.Contains(request.AvailableDeviceIDs, id) || slices.Contains(chosen[:i], id) {
			t.Errorf("%s: %q are preferred, available are %q", name, chosen, request.AvailableDeviceIDs)
		}
	}
	for _, id := range request.MustIncludeDeviceIDs {
		if !slices.Contains(chosen, id) {
			t.Errorf("%s: %q are preferred, without %s", name, chosen, id)
		}
	}
}

// makesSense reports whether a request is one that a kubelet makes: each device is available once, and
// those that must be included are among them, and not too many.
func makesSense(request *pluginapi.ContainerPreferredAllocationRequest) bool {
	available, must := sets.New(request.AvailableDeviceIDs...), sets.New(request.MustIncludeDeviceIDs...)
	return available.IsSuperset(must) && len(available) == len(request.AvailableDeviceIDs) && len(must) == len(request.MustIncludeDeviceIDs) && len(must) <= int(request.AllocationSize)
}

func checkAllocated(t *testing.T, name string, s *service, ids []string) {
	t.Helper()
	response, err := s.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
	if err != nil {
		return
	}
	list, _ := s.pool.list()
	for _, id := range ids {
		if device, known := list.device(id); !known || !device.Healthy {
			t.Errorf("%s: %s is allocated, which is unknown or unhealthy", name, id)
		}
	}
	if name == "shares" && len(share.GPUs(ids)) != 1 {
		t.Errorf("shares of %q are allocated together", share.GPUs(ids))
	}
	if len(response.ContainerResponses) != 1 {
		t.Errorf("%s: %d answers to a request", name, len(response.ContainerResponses))
	}
}
