// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/share"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

// podWithShare returns a Pod, bound in a given second, whose container requests a share; gpu
// was chosen for it unless it is empty.
func podWithShare(tb testing.TB, name string, second, percent int64, gpu string) *corev1.Pod {
	tb.Helper()
	pod := podWithGPUs(tb, name, second)
	pod.Annotations = nil
	pod.Spec.Containers = []corev1.Container{percentContainer("c", percent)}
	if gpu == "" {
		return pod
	}
	var assignment inventory.Assignment
	assignment.Add("c", percentResource, gpu)
	value, err := assignment.String()
	if err != nil {
		tb.Fatal(err)
	}
	pod.Annotations = map[string]string{inventory.AssignmentAnnotation: value}
	return pod
}

func percentContainer(name string, percent int64) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{percentResource: *resource.NewQuantity(percent, resource.DecimalSI)},
	}}
}

// sharesOf returns some of a GPU's shares.
func sharesOf(gpu string, from, to int) []string {
	var ids []string
	for number := from; number < to; number++ {
		ids = append(ids, share.ID(gpu, number))
	}
	return ids
}

// brief renders shares as "a 0-45".
func brief(ids []string) string {
	var words []string
	for _, gpu := range share.GPUs(ids) {
		var numbers []int
		for number := range share.PerGPU {
			if slices.Contains(ids, share.ID(gpu, number)) {
				numbers = append(numbers, number)
			}
		}
		words = append(words, fmt.Sprintf("%s %d-%d", gpu, numbers[0], numbers[len(numbers)-1]))
		if numbers[len(numbers)-1]-numbers[0] != len(numbers)-1 {
			words = append(words, "with gaps")
		}
	}
	return strings.Join(words, " ")
}

// sharesService returns a service for shares, some of which may be in use.
func sharesService(pool *Pool, usage *Usage, pods ...*corev1.Pod) *service {
	return &service{
		resource: percentResource, counterpart: gpuResource, pool: pool, tracker: trackerOf(pods...), usage: usage,
		allocator: &sharing{visibility: visibility{"VISIBLE", ofFalldio}},
		logger:    klog.Background(), streams: newStreams(),
	}
}

func TestHundredSharesOfEachGPUAreAdvertised(t *testing.T) {
	t.Parallel()
	devices := gpus("a", "b")
	devices[1].Healthy, devices[1].NUMANode = false, 1
	pool := poolOf(t, devices)
	pool.Hold("gone")
	list, _ := pool.list()
	got := (&sharing{}).advertise(list)
	if len(got) != 300 {
		t.Fatalf("%d devices", len(got))
	}
	want := map[string]string{"a": "Healthy 0", "b": "Unhealthy 1", "gone": "Unhealthy"}
	for place, device := range got {
		gpu := []string{"a", "b", "gone"}[place/share.PerGPU]
		if device.ID != share.ID(gpu, place%share.PerGPU) {
			t.Errorf("device %d is %s", place, device.ID)
		}
		state := device.Health
		if nodes := device.Topology.GetNodes(); len(nodes) == 1 {
			state = fmt.Sprint(state, " ", nodes[0].ID)
		}
		if state != want[gpu] {
			t.Errorf("%s is advertised as %s, want %s", device.ID, state, want[gpu])
		}
	}
}

func TestAShareIsOfOneGPU(t *testing.T) {
	t.Parallel()
	started := metav1.Unix(2000, 0)
	allOf := func(gpus ...string) (ids []string) {
		for _, gpu := range gpus {
			ids = append(ids, sharesOf(gpu, 0, 100)...)
		}
		return ids
	}
	started30 := with(podWithShare(t, "x", 1, 30, "c"), func(p *corev1.Pod) { p.Status.StartTime = &started })
	withInit := func(pod *corev1.Pod, percent int64) *corev1.Pod {
		pod.Spec.InitContainers = []corev1.Container{percentContainer("init", percent)}
		return pod
	}
	tests := map[string]struct {
		pods            []*corev1.Pod
		available, must []string
		size            int
		want            string
	}{
		"what was chosen is preferred":       {[]*corev1.Pod{podWithShare(t, "x", 1, 46, "c")}, allOf("a", "b", "c"), nil, 46, "c 0-45"},
		"of what is left of it":              {[]*corev1.Pod{podWithShare(t, "x", 1, 46, "c")}, append(allOf("a"), sharesOf("c", 54, 100)...), nil, 46, "c 54-99"},
		"the older choice comes first":       {[]*corev1.Pod{podWithShare(t, "x", 2, 46, "b"), podWithShare(t, "y", 1, 46, "c")}, allOf("a", "b", "c"), nil, 46, "c 0-45"},
		"a choice of another size is not it": {[]*corev1.Pod{podWithShare(t, "x", 1, 46, "b"), podWithShare(t, "y", 2, 45, "c")}, allOf("a", "b", "c"), nil, 45, "c 0-44"},
		"a choice without room is ignored":   {[]*corev1.Pod{podWithShare(t, "x", 1, 46, "c")}, append(allOf("b"), sharesOf("c", 55, 100)...), nil, 46, "b 0-45"},
		"without a choice the fullest GPU that has room": {nil,
			slices.Concat(allOf("a"), sharesOf("b", 40, 100), sharesOf("c", 60, 100)), nil, 46, "b 40-85"},
		"a GPU that would be full is the best":            {nil, slices.Concat(allOf("a"), sharesOf("c", 54, 100)), nil, 46, "c 54-99"},
		"the first of equal GPUs":                         {nil, allOf("c", "b", "a"), nil, 100, "a 0-99"},
		"GPUs chosen for others are avoided":              {[]*corev1.Pod{podWithShare(t, "y", 1, 60, "a")}, allOf("a", "b"), nil, 50, "b 0-49"},
		"but not what they leave":                         {[]*corev1.Pod{podWithShare(t, "y", 1, 50, "a")}, allOf("a", "b"), nil, 49, "a 0-48"},
		"GPUs chosen as a whole are avoided":              {[]*corev1.Pod{podWithGPUs(t, "y", 1, "a", "b")}, allOf("a", "b", "c"), nil, 1, "c 0-0"},
		"unless there is nothing else":                    {[]*corev1.Pod{podWithGPUs(t, "y", 1, "a")}, allOf("a"), nil, 1, "a 0-0"},
		"a Pod that has its share waits for nothing":      {[]*corev1.Pod{started30}, allOf("a", "b", "c"), nil, 30, "a 0-29"},
		"an init container gets a share of its Pod's GPU": {[]*corev1.Pod{withInit(podWithShare(t, "x", 1, 46, "c"), 20)}, allOf("a", "b", "c"), nil, 20, "c 0-19"},
		"even if it requests more":                        {[]*corev1.Pod{withInit(podWithShare(t, "x", 1, 46, "c"), 60)}, allOf("a", "b", "c"), nil, 60, "c 0-59"},
		"what the kubelet insists on determines the GPU":  {nil, allOf("a", "b"), sharesOf("b", 70, 80), 20, "b 0-79 with gaps"},
		"what it insists on may be what was chosen":       {[]*corev1.Pod{podWithShare(t, "x", 1, 20, "b")}, allOf("a", "b"), sharesOf("b", 0, 10), 20, "b 0-19"},
		"no GPU has as much":                              {nil, append(sharesOf("a", 0, 40), sharesOf("b", 0, 40)...), nil, 41, ""},
		"no container gets more than a GPU":               {nil, allOf("a", "b"), nil, 101, ""},
		"the kubelet insists on two GPUs":                 {nil, allOf("a", "b"), []string{share.ID("a", 0), share.ID("b", 0)}, 20, ""},
		"an unhealthy GPU has nothing to share":           {nil, append(sharesOf("ill", 0, 50), allOf("a")...), nil, 50, "a 0-49"},
		"so a choice of it is ignored":                    {[]*corev1.Pod{podWithShare(t, "x", 1, 50, "ill")}, append(allOf("ill"), allOf("a")...), nil, 50, "a 0-49"},
		"a choice of two GPUs is ignored": {[]*corev1.Pod{with(podWithShare(t, "x", 1, 2, "c"), func(p *corev1.Pod) {
			p.Annotations[inventory.AssignmentAnnotation] = `{"version":"v1","containers":{"c":{"falldio.com/gpu-percent":["b","c"]}}}`
		})}, allOf("a", "b", "c"), nil, 2, "a 0-1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			devices := gpus("a", "b", "c", "ill")
			devices[3].Healthy = false
			s := sharesService(poolOf(t, devices), nil, test.pods...)
			got := s.prefer(t.Context(), request{available: test.available, must: test.must, size: test.size})
			if diff := cmp.Diff(test.want, brief(got)); diff != "" {
				t.Errorf("preferred shares (-want +got):\n%s", diff)
			}
			if len(got) > 0 && len(got) != test.size {
				t.Errorf("%d shares, want %d", len(got), test.size)
			}
		})
	}
}

// TestSharesStopBeingPending has two Pods of equal size wait for different GPUs.
func TestSharesStopBeingPending(t *testing.T) {
	t.Parallel()
	tracker := trackerOf(podWithShare(t, "x", 1, 2, "a"), podWithShare(t, "y", 2, 2, "b"), podWithShare(t, "z", 3, 3, "b"))
	tracker.Allocated(percentResource, sharesOf("b", 7, 9))
	if diff := cmp.Diff("x/c:a z/c:b", show(tracker.Pending(percentResource))); diff != "" {
		t.Errorf("after Pod y got its GPU (-want +got):\n%s", diff)
	}
	tracker.Allocated(percentResource, sharesOf("c", 0, 2))
	if diff := cmp.Diff("z/c:b", show(tracker.Pending(percentResource))); diff != "" {
		t.Errorf("after Pod x got another GPU (-want +got):\n%s", diff)
	}
	held := listed("z:" + strings.Join(sharesOf("b", 0, 3), ","))
	held[0].Resource = percentResource
	tracker.Observe(held)
	if diff := cmp.Diff("", show(tracker.Pending(percentResource))); diff != "" {
		t.Errorf("after the kubelet listed Pod z (-want +got):\n%s", diff)
	}
}

func allocate(t *testing.T, s *service, ids []string) (*pluginapi.AllocateResponse, error) {
	t.Helper()
	return s.Allocate(t.Context(), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{{DevicesIds: ids}}})
}

func TestAContainerSeesItsGPUAndItsShare(t *testing.T) {
	t.Parallel()
	s := sharesService(poolOf(t, gpus("a", "b")), nil)
	response, err := allocate(t, s, sharesOf("b", 54, 100))
	if err != nil {
		t.Fatal(err)
	}
	got := given(response)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"GPU_SHARE_PERCENT=46", "falldio.com/gpu=b"}, got); diff != "" {
		t.Errorf("Allocate() (-want +got):\n%s", diff)
	}
	s.allocator = &sharing{}
	response, err = allocate(t, s, sharesOf("b", 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"GPU_SHARE_PERCENT=1"}, given(response)); diff != "" {
		t.Errorf("Allocate() without a name for anything (-want +got):\n%s", diff)
	}
}

func TestImpossibleSharesAreRefused(t *testing.T) {
	t.Parallel()
	devices := gpus("a", "b", "ill")
	devices[2].Healthy = false
	s := sharesService(poolOf(t, devices), nil)
	tests := map[string]struct {
		ids  []string
		code codes.Code
		want string
	}{
		"of two GPUs": {
			append(sharesOf("a", 0, 20), sharesOf("b", 0, 26)...), codes.FailedPrecondition,
			"the kubelet chose 46 % of 2 GPUs together (a, b), but a container gets a share of one GPU: no GPU has as much left",
		},
		"of an unhealthy GPU": {sharesOf("ill", 0, 2), codes.FailedPrecondition, `device "ill::0" of falldio.com/gpu-percent is unhealthy`},
		"of an unknown GPU":   {sharesOf("x", 0, 2), codes.NotFound, `falldio.com/gpu-percent has no device "x::0"`},
		"with a wrong number": {[]string{"a::100"}, codes.NotFound, `falldio.com/gpu-percent has no device "a::100"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := allocate(t, s, test.ids)
			if status.Code(err) != test.code || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}

// BenchmarkPreferAShare has a node with 16 GPUs, all of them free.
func BenchmarkPreferAShare(b *testing.B) {
	var ids, available []string
	for i := range 16 {
		ids = append(ids, fmt.Sprintf("GPU-6f0a1d5c-8a59-3b0e-a4b6-0ed8a3b1c7%02x", i))
		available = append(available, sharesOf(ids[i], 0, share.PerGPU)...)
	}
	s := sharesService(poolOf(b, gpus(ids...)), nil, podWithShare(b, "x", 1, 46, ids[3]), podWithShare(b, "y", 1, 30, ""))
	for _, size := range []int{46, 30} { // with a choice, and without
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.prefer(b.Context(), request{available: available, size: size})
			}
		})
	}
}
