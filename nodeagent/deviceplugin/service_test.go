// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func serviceOf(pool *Pool, pods ...*corev1.Pod) *service {
	return &service{
		resource: gpuResource, pool: pool, claims: claimsOn(pods...), envVar: "VISIBLE", cdiKind: "falldio.com/gpu",
		logger: klog.Background(), streams: newStreams(),
	}
}

func TestAllocate(t *testing.T) {
	t.Parallel()
	devices := gpus("d", "c", "b", "a")
	devices[2].Healthy = false
	pool := poolOf(t, devices)
	pool.Hold("gone")
	calls := 0
	s := serviceOf(pool)
	s.allocated = func() { calls++ }

	request := &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: []string{"a", "c", "d"}}}}
	got, err := s.Allocate(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"VISIBLE=d,c,a", "falldio.com/gpu=d", "falldio.com/gpu=c", "falldio.com/gpu=a"}, handed(got)); diff != "" {
		t.Errorf("Allocate() (-want +got):\n%s", diff)
	}
	s.envVar, s.cdiKind = "", ""
	got, err = s.Allocate(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if words := handed(got); len(got.ContainerResponses) != 1 || len(words) > 0 {
		t.Errorf("Allocate() without a name for anything = %v", words)
	}
	if calls != 2 || s.allocations.Load() != 2 {
		t.Errorf("told %d times, counted %d", calls, s.allocations.Load())
	}

	refusals := map[string]codes.Code{"b": codes.FailedPrecondition, "gone": codes.FailedPrecondition, "stranger": codes.NotFound}
	for id, want := range refusals {
		request.ContainerRequests[0].DevicesIds = []string{"a", id}
		if _, err := s.Allocate(t.Context(), request); status.Code(err) != want {
			t.Errorf("Allocate(%s) = %v, want %v", id, err, want)
		}
	}
	if calls != 2 {
		t.Error("a refusal was told as an allocation")
	}
}

// handed shows the environment and the CDI devices that a container gets.
func handed(response *pluginapi.AllocateResponse) []string {
	var words []string
	for _, container := range response.ContainerResponses {
		for name, value := range container.Envs {
			words = append(words, name+"="+value)
		}
		for _, device := range container.CdiDevices {
			words = append(words, device.Name)
		}
	}
	return words
}

func TestGetPreferredAllocation(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "d", "e", "f"}
	started := metav1.Unix(2000, 0)
	tests := map[string]struct {
		pods            []*corev1.Pod
		available, must []string
		size            int32
		want            []string
	}{
		"without claims a pair is preferred":           {nil, []string{"b", "c", "d"}, nil, 2, []string{"c", "d"}},
		"a claim is preferred, in order":               {[]*corev1.Pod{claimant(t, "x", 1, "e", "b")}, all, nil, 2, []string{"b", "e"}},
		"the older claim is preferred":                 {[]*corev1.Pod{claimant(t, "x", 2, "a", "b"), claimant(t, "y", 1, "e", "f")}, all, nil, 2, []string{"e", "f"}},
		"a claim of another size is left alone":        {[]*corev1.Pod{claimant(t, "x", 1, "a", "b")}, all, nil, 1, []string{"c"}},
		"a claim must have what the kubelet wants":     {[]*corev1.Pod{claimant(t, "x", 1, "a", "b")}, all, []string{"c"}, 2, []string{"c", "d"}},
		"a claim may have what the kubelet wants":      {[]*corev1.Pod{claimant(t, "x", 1, "a", "c")}, all, []string{"c"}, 2, []string{"a", "c"}},
		"a claim to what is taken is void":             {[]*corev1.Pod{claimant(t, "x", 1, "a", "c")}, all[1:], nil, 2, []string{"e", "f"}},
		"a claim that is settled is void":              {[]*corev1.Pod{with(claimant(t, "x", 1, "a", "c"), func(p *corev1.Pod) { p.Status.StartTime = &started })}, all, nil, 2, []string{"a", "b"}},
		"what is promised is used before none is":      {[]*corev1.Pod{claimant(t, "x", 1, all[1:]...)}, all, nil, 2, []string{"a", "b"}},
		"the impossible is left to the kubelet":        {nil, all, nil, 7, nil},
		"what nobody knows is left to the kubelet":     {nil, []string{"x", "y"}, []string{"x"}, 1, nil},
		"all that there is are all that can be chosen": {nil, all, nil, 6, all},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, err := serviceOf(poolOf(t, gpus(all...)), test.pods...).GetPreferredAllocation(t.Context(), &pluginapi.PreferredAllocationRequest{
				ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
					{AvailableDeviceIDs: test.available, MustIncludeDeviceIDs: test.must, AllocationSize: test.size},
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, response.ContainerResponses[0].DeviceIDs); diff != "" {
				t.Errorf("preferred devices (-want +got):\n%s", diff)
			}
		})
	}
}

// BenchmarkGetPreferredAllocation has a node full of Pods, eight of which wait.
func BenchmarkGetPreferredAllocation(b *testing.B) {
	const pods, waiting, devices = 250, 8, 16
	var ids []string
	for i := range devices {
		ids = append(ids, fmt.Sprintf("GPU-6f0a1d5c-8a59-3b0e-a4b6-0ed8a3b1c7%02x", i))
	}
	started := metav1.Unix(2000, 0)
	var bound []*corev1.Pod
	for i := range pods {
		pod := claimant(b, fmt.Sprint("pod-", i), int64(i), ids[i%devices])
		if i >= waiting {
			pod.Status.StartTime = &started
		}
		bound = append(bound, pod)
	}
	s := serviceOf(poolOf(b, gpus(ids...)), bound...)
	for _, size := range []int32{1, 4} { // a claim, and a choice
		request := &pluginapi.PreferredAllocationRequest{ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{
			{AvailableDeviceIDs: ids, AllocationSize: size},
		}}
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				if _, err := s.GetPreferredAllocation(context.Background(), request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
