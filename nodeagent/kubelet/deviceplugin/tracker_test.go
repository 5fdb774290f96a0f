// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceplugin

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"falldio.github.io/gpu-controller/nodeagent/kubelet/podresources"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

const gpuResource = "falldio.com/gpu"

const percentResource = "falldio.com/gpu-percent"

// container returns a container that requests GPUs.
func container(name string, amount int64) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{gpuResource: *resource.NewQuantity(amount, resource.DecimalSI)},
	}}
}

// podWithGPUs returns a Pod, bound in a given second, for whose container GPUs were chosen.
func podWithGPUs(tb testing.TB, name string, second int64, ids ...string) *corev1.Pod {
	tb.Helper()
	var assignment inventory.Assignment
	assignment.Add("c", gpuResource, ids...)
	value, err := assignment.String()
	if err != nil {
		tb.Fatal(err)
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name),
			Annotations: map[string]string{inventory.AssignmentAnnotation: value},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{container("c", int64(len(ids)))}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, LastTransitionTime: metav1.Unix(1000+second, 0)},
		}},
	}
}

func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

// withoutChoice removes the scheduler's choice from a Pod.
func withoutChoice(pod *corev1.Pod) *corev1.Pod {
	pod.Annotations = nil
	return pod
}

// show renders pending allocations as "pod/container:id,id …", or with their size if
// nothing was chosen: "pod/container:2?".
func show(pending []PendingAllocation) string {
	var words []string
	for _, p := range pending {
		chosen := strings.Join(p.IDs, ",")
		if chosen == "" {
			chosen = fmt.Sprint(p.Size, "?")
		}
		words = append(words, p.Pod.Name+"/"+p.Container+":"+chosen)
	}
	return strings.Join(words, " ")
}

// withInit puts an init container that requests GPUs before a Pod's other containers.
func withInit(pod *corev1.Pod, amount int64, policy *corev1.ContainerRestartPolicy) *corev1.Pod {
	init := container("init", amount)
	init.RestartPolicy = policy
	pod.Spec.InitContainers = append([]corev1.Container{init}, pod.Spec.InitContainers...)
	return pod
}

func trackerOf(pods ...*corev1.Pod) *PodAllocationTracker {
	return NewPodAllocationTracker(func() []*corev1.Pod { return pods }, clock.RealClock{}, percentResource)
}

func TestAwaitReturnsOnceThePodIsKnown(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	var mu sync.Mutex
	var pods []*corev1.Pod
	tracker := NewPodAllocationTracker(func() []*corev1.Pod {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(pods)
	}, fake)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		tracker.Await(t.Context(), gpuResource, 2)
	}()
	// step advances the clock to the next check.
	step := func() {
		for !fake.HasWaiters() {
			select {
			case <-answered:
				return
			case <-time.After(time.Millisecond):
			}
		}
		fake.Step(awaitInterval)
	}
	step()
	select {
	case <-answered:
		t.Fatal("Await() does not wait")
	default:
	}
	mu.Lock()
	pods = append(pods, podWithGPUs(t, "late", 0, "GPU-0", "GPU-1"))
	mu.Unlock()
	step()
	select {
	case <-answered:
	case <-time.After(10 * time.Second):
		t.Fatal("Await() does not return")
	}
	if waited := fake.Since(time.Unix(0, 0)); waited >= awaitTimeout {
		t.Errorf("Await() waited for %v although the Pod is known", waited)
	}
}

func TestAwaitTimesOut(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	tracker := NewPodAllocationTracker(func() []*corev1.Pod { return nil }, fake)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		tracker.Await(t.Context(), gpuResource, 2)
	}()
	for {
		select {
		case <-answered:
			if waited := fake.Since(time.Unix(0, 0)); waited != awaitTimeout {
				t.Errorf("Await() waited for %v, want %v", waited, awaitTimeout)
			}
			return
		case <-time.After(time.Millisecond):
			if fake.HasWaiters() {
				fake.Step(awaitInterval)
			}
		}
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	started := metav1.NewTime(time.Unix(2000, 0))
	tests := map[string]struct {
		pods []*corev1.Pod
		want string
	}{
		"the oldest binding is first": {
			[]*corev1.Pod{podWithGPUs(t, "a", 2, "1"), podWithGPUs(t, "b", 1, "2"), podWithGPUs(t, "c", 3, "3")}, "b/c:2 a/c:1 c/c:3"},
		"then the oldest Pod": {
			[]*corev1.Pod{
				with(podWithGPUs(t, "a", 1, "1"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(2, 0) }),
				with(podWithGPUs(t, "b", 1, "2"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(1, 0) }),
			}, "b/c:2 a/c:1"},
		"then the names decide": {[]*corev1.Pod{podWithGPUs(t, "b", 1, "2"), podWithGPUs(t, "a", 1, "1")}, "a/c:1 b/c:2"},
		"a Pod that has started has its devices": {
			[]*corev1.Pod{with(podWithGPUs(t, "a", 1, "1"), func(p *corev1.Pod) { p.Status.StartTime = &started })}, ""},
		"a Pod that has ended needs none": {
			[]*corev1.Pod{with(podWithGPUs(t, "a", 1, "1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, ""},
		"a Pod that is being deleted needs none": {
			[]*corev1.Pod{with(podWithGPUs(t, "a", 1, "1"), func(p *corev1.Pod) { p.DeletionTimestamp = &started })}, ""},
		"a Pod without the annotation waits for anything": {
			[]*corev1.Pod{withoutChoice(podWithGPUs(t, "a", 1, "1", "2")), podWithGPUs(t, "b", 2, "2")}, "a/c:2? b/c:2"},
		"so does one whose annotation can't be read": {
			[]*corev1.Pod{with(podWithGPUs(t, "a", 1, "1"), func(p *corev1.Pod) {
				p.Annotations[inventory.AssignmentAnnotation] = "{"
			}), podWithGPUs(t, "b", 1, "2")}, "a/c:1? b/c:2"},
		"a Pod that requests nothing does not wait": {
			[]*corev1.Pod{with(podWithGPUs(t, "a", 1, "1"), func(p *corev1.Pod) { p.Spec.Containers[0] = container("c", 0) })}, ""},
		"a choice of more than the container requests is ignored": {
			[]*corev1.Pod{with(podWithGPUs(t, "a", 1, "1", "2"), func(p *corev1.Pod) { p.Spec.Containers[0] = container("c", 1) })}, "a/c:1?"},
		"a choice for another container is ignored": {
			[]*corev1.Pod{with(podWithGPUs(t, "a", 1, "1"), func(p *corev1.Pod) { p.Spec.Containers[0].Name = "d" })}, "a/d:1?"},
		"init containers come first": {
			[]*corev1.Pod{with(withInit(podWithGPUs(t, "a", 1, "1"), 1, nil), func(p *corev1.Pod) {
				p.Annotations[inventory.AssignmentAnnotation] =
					`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1"]},"init":{"falldio.com/gpu":["2"]}}}`
			})}, "a/init:2 a/c:1"},
		"an init container without a choice gets devices chosen for its Pod": {
			[]*corev1.Pod{withInit(podWithGPUs(t, "a", 1, "1", "2", "3"), 2, nil)}, "a/init:1,2 a/c:1,2,3"},
		"but none chosen for another init container": {
			[]*corev1.Pod{with(withInit(podWithGPUs(t, "a", 1, "1"), 1, nil), func(p *corev1.Pod) {
				p.Spec.InitContainers = append(p.Spec.InitContainers, container("second", 1))
				p.Annotations[inventory.AssignmentAnnotation] =
					`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1"]},"second":{"falldio.com/gpu":["2"]}}}`
			})}, "a/init:1 a/second:2 a/c:1"},
		"and only if there are enough of them": {
			[]*corev1.Pod{withInit(podWithGPUs(t, "a", 1, "1"), 2, nil)}, "a/init:2? a/c:1"},
		"a sidecar keeps its devices, so it gets others": {
			[]*corev1.Pod{withInit(podWithGPUs(t, "a", 1, "1", "2"), 1, new(corev1.ContainerRestartPolicyAlways))}, "a/init:1? a/c:1,2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, show(trackerOf(test.pods...).Pending(gpuResource))); diff != "" {
				t.Errorf("Pending() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAllocationsStopBeingPending checks what is pending after each of several steps.
func TestAllocationsStopBeingPending(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	tracker := NewPodAllocationTracker(func() []*corev1.Pod { return pods }, clock.RealClock{})
	bind := func(bound ...*corev1.Pod) func() { return func() { pods = bound } }
	allocated := func(ids ...string) func() { return func() { tracker.Allocated(gpuResource, ids) } }
	start := func(pod int) func() {
		return func() { pods[pod].Status.StartTime = new(metav1.Unix(2000, 0)) }
	}
	steps := []struct {
		what string
		do   func()
		want string
	}{
		{"Pods of two sizes", bind(podWithGPUs(t, "a", 1, "1", "2"), podWithGPUs(t, "b", 2, "3", "4"), podWithGPUs(t, "c", 3, "3", "4"), podWithGPUs(t, "d", 4, "5")),
			"a/c:1,2 b/c:3,4 c/c:3,4 d/c:5"},
		{"the chosen devices, in any order", allocated("4", "3"), "a/c:1,2 c/c:3,4 d/c:5"},
		{"another resource", func() { tracker.Allocated("falldio.com/rdma", []string{"5"}) }, "a/c:1,2 c/c:3,4 d/c:5"},
		{"the same devices again", allocated("3", "4"), "a/c:1,2 d/c:5"},
		{"devices chosen for no Pod are the oldest Pod's", allocated("8", "9"), "d/c:5"},
		{"devices of a Pod that is not known yet", allocated("1", "2"), "d/c:5"},
		{"that Pod appears, and another one after it", func() {
			pods = append(pods, podWithGPUs(t, "f", 6, "7", "8"), podWithGPUs(t, "e", 5, "6", "7"))
		}, "d/c:5 f/c:7,8"},
		{"a recreated Pod waits again", func() { pods[0].UID = "another" }, "a/c:1,2 d/c:5 f/c:7,8"},
		{"a Pod that has started does not wait", start(0), "d/c:5 f/c:7,8"},
		{"Pods without a choice wait as well", bind(withoutChoice(podWithGPUs(t, "g", 7, "1")), podWithGPUs(t, "h", 8, "2")), "g/c:1? h/c:2"},
		{"and get devices", allocated("9"), "h/c:2"},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, show(tracker.Pending(gpuResource))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
	if len(tracker.allocated) != 1 {
		t.Errorf("deleted Pods are remembered: %v", tracker.allocated)
	}
}

// listed returns the kubelet's list of allocations, given as "pod:id,id …".
func listed(words ...string) []podresources.Allocation {
	var allocations []podresources.Allocation
	for _, word := range words {
		pod, ids, _ := strings.Cut(word, ":")
		allocations = append(allocations, podresources.Allocation{
			Namespace: "ns", Pod: pod, Container: "c", Resource: gpuResource, DeviceIDs: strings.Split(ids, ","),
		})
	}
	return allocations
}

func TestObserve(t *testing.T) {
	t.Parallel()
	a, b := podWithGPUs(t, "a", 1, "1", "2"), podWithGPUs(t, "b", 2, "3", "4")
	// lists are the kubelet's consecutive lists.
	type lists = [][]podresources.Allocation
	tests := map[string]struct {
		// allocated is what is allocated before any Pod is known; before and after
		// are the kubelet's lists before and after the Pods are known.
		allocated     []string
		before, after lists
		want          string
	}{
		"a Pod that has the chosen devices does not wait": {nil, nil, lists{listed("b:3,4", "gone:8")}, "a/c:1,2"},
		"other devices may be those of a predecessor":     {nil, nil, lists{listed("a:8,9")}, "a/c:1,2 b/c:3,4"},
		"a predecessor may have had the same devices":     {nil, nil, lists{listed("a:1,2"), nil}, "a/c:1,2 b/c:3,4"},
		"an unmatched allocation has an owner":            {[]string{"8", "9"}, lists{listed("b:8,9")}, nil, "a/c:1,2"},
		"which may become known with its Pod":             {[]string{"8", "9"}, nil, lists{listed("b:8,9")}, "a/c:1,2"},
		"until then it is the oldest Pod's":               {[]string{"8", "9"}, lists{nil}, nil, "b/c:3,4"},
		"an owner that never appears matches nothing":     {[]string{"8", "9"}, lists{listed("x:8,9")}, lists{listed("x:8,9")}, "a/c:1,2 b/c:3,4"},
		"nor does one that is never listed":               {[]string{"8", "9"}, lists{nil, nil}, nil, "a/c:1,2 b/c:3,4"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			tracker := NewPodAllocationTracker(func() []*corev1.Pod { return pods }, clock.RealClock{})
			if test.allocated != nil {
				tracker.Allocated(gpuResource, test.allocated)
			}
			for _, allocations := range test.before {
				tracker.Observe(allocations)
			}
			pods = []*corev1.Pod{a, b}
			for _, allocations := range test.after {
				tracker.Observe(allocations)
			}
			if diff := cmp.Diff(test.want, show(tracker.Pending(gpuResource))); diff != "" {
				t.Errorf("Pending() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnmatchedAllocationsAreForgotten(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	tracker := NewPodAllocationTracker(func() []*corev1.Pod { return pods }, clock.RealClock{})
	steps := []struct {
		what string
		do   func()
		want int
	}{
		{"two are made", func() { tracker.Allocated(gpuResource, []string{"1"}); tracker.Allocated(gpuResource, []string{"2"}) }, 2},
		{"the kubelet may list them late", func() { tracker.Observe(nil) }, 2},
		{"one that it never lists is dropped", func() { tracker.Observe(listed("a:1")) }, 1},
		{"the other one's Pod may appear late", func() { tracker.Observe(listed("a:1")) }, 1},
		{"until it appears, even if it has started by then", func() {
			pods = []*corev1.Pod{with(podWithGPUs(t, "a", 1, "5"), func(p *corev1.Pod) { p.Status.StartTime = new(metav1.Unix(2000, 0)) })}
			tracker.Observe(listed("a:1"))
		}, 0},
		{"there is a limit", func() {
			for range 2 * maxUnmatched {
				tracker.Allocated(gpuResource, []string{"3"})
			}
		}, maxUnmatched},
	}
	for _, step := range steps {
		step.do()
		if len(tracker.unmatched) != step.want {
			t.Errorf("%s: %d are remembered, want %d", step.what, len(tracker.unmatched), step.want)
		}
	}
}
