// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/utils/clock"
)

func ofFalldio() string { return "falldio.com/gpu" }

func serviceOf(pool *Pool, pods ...*corev1.Pod) *service {
	return &service{
		resource: gpuResource, pool: pool, tracker: trackerOf(pods...), allocator: &whole{visibility{"VISIBLE", ofFalldio}},
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
	if diff := cmp.Diff([]string{"falldio.com/gpu=d", "falldio.com/gpu=c", "falldio.com/gpu=a"}, given(got)); diff != "" {
		t.Errorf("Allocate() (-want +got):\n%s", diff)
	}
	s.allocator = &whole{}
	got, err = s.Allocate(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if words := given(got); len(got.ContainerResponses) != 1 || len(words) > 0 {
		t.Errorf("Allocate() without a name for anything = %v", words)
	}
	if calls != 2 || s.allocations.Load() != 2 {
		t.Errorf("called %d times, counted %d", calls, s.allocations.Load())
	}

	refusals := map[string]codes.Code{"b": codes.FailedPrecondition, "gone": codes.FailedPrecondition, "stranger": codes.NotFound}
	for id, want := range refusals {
		request.ContainerRequests[0].DevicesIds = []string{"a", id}
		if _, err := s.Allocate(t.Context(), request); status.Code(err) != want {
			t.Errorf("Allocate(%s) = %v, want %v", id, err, want)
		}
	}
	if calls != 2 {
		t.Error("a refusal was reported as an allocation")
	}
}

// given returns the environment and the CDI devices that a container is given.
func given(response *pluginapi.AllocateResponse) []string {
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
		"without a choice a pair is preferred":              {nil, []string{"b", "c", "d"}, nil, 2, []string{"c", "d"}},
		"a choice is preferred, in order":                   {[]*corev1.Pod{podWithGPUs(t, "x", 1, "e", "b")}, all, nil, 2, []string{"b", "e"}},
		"the older Pod's choice is preferred":               {[]*corev1.Pod{podWithGPUs(t, "x", 2, "a", "b"), podWithGPUs(t, "y", 1, "e", "f")}, all, nil, 2, []string{"e", "f"}},
		"a choice of another size is avoided":               {[]*corev1.Pod{podWithGPUs(t, "x", 1, "a", "b")}, all, nil, 1, []string{"c"}},
		"a choice must include what the kubelet insists on": {[]*corev1.Pod{podWithGPUs(t, "x", 1, "a", "b")}, all, []string{"c"}, 2, []string{"c", "d"}},
		"a choice may include what the kubelet insists on":  {[]*corev1.Pod{podWithGPUs(t, "x", 1, "a", "c")}, all, []string{"c"}, 2, []string{"a", "c"}},
		"a choice of unavailable devices is ignored":        {[]*corev1.Pod{podWithGPUs(t, "x", 1, "a", "c")}, all[1:], nil, 2, []string{"c", "d"}},
		"but not the choice for another Pod":                {[]*corev1.Pod{podWithGPUs(t, "x", 1, "a", "b"), podWithGPUs(t, "y", 2, "c", "d")}, all[1:], nil, 2, []string{"e", "f"}},
		"a Pod without a choice avoids those of others":     {[]*corev1.Pod{withoutChoice(podWithGPUs(t, "x", 1, "a", "b")), podWithGPUs(t, "y", 2, "a", "b")}, all, nil, 2, []string{"c", "d"}},
		"what the kubelet insists on identifies the Pod": {
			[]*corev1.Pod{podWithGPUs(t, "x", 1, "a", "b"), podWithGPUs(t, "y", 2, "c", "e")}, all, []string{"c"}, 2, []string{"c", "e"}},
		"an init container gets devices chosen for its Pod": {
			[]*corev1.Pod{withInit(podWithGPUs(t, "x", 1, "c", "e"), 1, nil)}, all, nil, 1, []string{"c"}},
		"an init container that requests more may get devices chosen for its Pod": {
			[]*corev1.Pod{withInit(podWithGPUs(t, "x", 1, "a"), 2, nil)}, all, nil, 2, []string{"a", "b"}},
		"a sidecar avoids devices chosen for its Pod": {
			[]*corev1.Pod{withInit(podWithGPUs(t, "x", 1, "a", "b"), 1, new(corev1.ContainerRestartPolicyAlways))}, all, nil, 1, []string{"c"}},
		"the choice for a Pod that has started is ignored": {[]*corev1.Pod{with(podWithGPUs(t, "x", 1, "a", "c"), func(p *corev1.Pod) { p.Status.StartTime = &started })}, all, nil, 2, []string{"a", "b"}},
		"others' devices are better than none":             {[]*corev1.Pod{podWithGPUs(t, "x", 1, all[1:]...)}, all, nil, 2, []string{"a", "b"}},
		"the impossible is left to the kubelet":            {nil, all, nil, 7, nil},
		"unknown devices are left to the kubelet":          {nil, []string{"x", "y"}, []string{"x"}, 1, nil},
		"all devices can be chosen":                        {nil, all, nil, 6, all},
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

// TestUnhealthyDevicesAreNotPreferred has a kubelet that does not know yet that b is
// unhealthy and z is gone.
func TestUnhealthyDevicesAreNotPreferred(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pods            []*corev1.Pod
		available, must []string
		size            int
		want            []string
	}{
		"a healthy device is preferred":              {nil, []string{"b", "c", "z"}, nil, 1, []string{"c"}},
		"a choice of an unhealthy device is ignored": {[]*corev1.Pod{podWithGPUs(t, "x", 1, "a", "b")}, []string{"a", "b", "c", "d"}, nil, 2, []string{"c", "d"}},
		"the kubelet may insist on one":              {nil, []string{"a", "b", "c"}, []string{"b"}, 2, []string{"a", "b"}},
		"if too few are healthy, all count":          {nil, []string{"a", "b"}, nil, 2, []string{"a", "b"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			devices := gpus("a", "b", "c", "d")
			devices[1].Healthy = false
			pool := poolOf(t, devices)
			pool.Hold("z")
			if diff := cmp.Diff(test.want, serviceOf(pool, test.pods...).prefer(t.Context(), request{test.available, test.must, test.size})); diff != "" {
				t.Errorf("preferred devices (-want +got):\n%s", diff)
			}
		})
	}
}

// turn is the admission of a Pod.
type turn struct {
	pod string
	// forced is what the kubelet allocates, whatever is preferred.
	forced []string
	want   []string
}

// TestPodsAreAdmittedInOrder has a kubelet admit Pods of size 2 one after another. The
// Pods are a, b and c in this order; the scheduler has chosen a1 and a2, b1 and b2, and
// so on.
func TestPodsAreAdmittedInOrder(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		// unknown is the Pod that becomes known only after its admission, unchosen is
		// one without a choice.
		unknown, unchosen string
		turns             []turn
	}{
		"each gets what was chosen for it": {"", "", []turn{
			{"a", nil, []string{"a1", "a2"}}, {"b", nil, []string{"b1", "b2"}}, {"c", nil, []string{"c1", "c2"}},
		}},
		"the kubelet allocates other devices": {"", "", []turn{
			{"a", []string{"x1", "x2"}, []string{"x1", "x2"}}, {"b", nil, []string{"b1", "b2"}}, {"c", nil, []string{"c1", "c2"}},
		}},
		"a Pod becomes known too late": {"a", "", []turn{
			{"a", nil, []string{"x1", "x2"}}, {"b", nil, []string{"b1", "b2"}}, {"c", nil, []string{"c1", "c2"}},
		}},
		"nothing is chosen for a Pod": {"", "a", []turn{
			{"a", nil, []string{"x1", "x2"}}, {"b", nil, []string{"b1", "b2"}}, {"c", nil, []string{"c1", "c2"}},
		}},
		"two Pods swap places, and their devices": {"", "", []turn{
			{"b", nil, []string{"a1", "a2"}}, {"a", nil, []string{"b1", "b2"}}, {"c", nil, []string{"c1", "c2"}},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := []string{"x1", "x2", "a1", "a2", "b1", "b2", "c1", "c2"}
			var known []*corev1.Pod
			s := serviceOf(poolOf(t, gpus(all...)))
			s.tracker = NewPodAllocationTracker(func() []*corev1.Pod { return known }, clock.RealClock{})
			appear := func(name string) {
				pod := podWithGPUs(t, name, int64(name[0]), name+"1", name+"2")
				if name == test.unchosen {
					pod = withoutChoice(pod)
				}
				known = append(known, pod)
			}
			for _, name := range []string{"a", "b", "c"} {
				// After an unknown Pod, the others are known only when it is their turn.
				if test.unknown == "" {
					appear(name)
				}
			}
			for _, turn := range test.turns {
				if test.unknown != "" && turn.pod != test.unknown {
					appear(turn.pod)
				}
				got := turn.forced
				if preferred := s.prefer(t.Context(), request{all, nil, 2}); got == nil {
					got = preferred
				}
				if diff := cmp.Diff(turn.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", turn.pod, diff)
				}
				request := &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: got}}}
				if _, err := s.Allocate(t.Context(), request); err != nil {
					t.Fatal(err)
				}
				all = slices.DeleteFunc(all, func(id string) bool { return slices.Contains(got, id) })
				if turn.pod == test.unknown {
					appear(turn.pod)
				}
			}
		})
	}
}

// BenchmarkGetPreferredAllocation has a node full of Pods, eight of which are pending.
func BenchmarkGetPreferredAllocation(b *testing.B) {
	const pods, waiting, devices = 250, 8, 16
	var ids []string
	for i := range devices {
		ids = append(ids, fmt.Sprintf("GPU-6f0a1d5c-8a59-3b0e-a4b6-0ed8a3b1c7%02x", i))
	}
	started := metav1.Unix(2000, 0)
	var bound []*corev1.Pod
	for i := range pods {
		pod := podWithGPUs(b, fmt.Sprint("pod-", i), int64(i), ids[i%devices])
		if i >= waiting {
			pod.Status.StartTime = &started
		}
		bound = append(bound, pod)
	}
	s := serviceOf(poolOf(b, gpus(ids...)), bound...)
	for _, size := range []int32{1, 4} { // with a choice, and without
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
