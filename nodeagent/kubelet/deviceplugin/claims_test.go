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

// container wants so many GPUs.
func container(name string, amount int64) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{gpuResource: *resource.NewQuantity(amount, resource.DecimalSI)},
	}}
}

// claimant is a Pod with a container that claims GPUs, bound so many seconds
// after the others.
func claimant(tb testing.TB, name string, second int64, ids ...string) *corev1.Pod {
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

func without(pod *corev1.Pod) *corev1.Pod {
	pod.Annotations = nil
	return pod
}

// show renders claims as "pod/container:id,id …", or with their size if nothing
// was chosen: "pod/container:2?".
func show(claims []Claim) string {
	var words []string
	for _, claim := range claims {
		chosen := strings.Join(claim.IDs, ",")
		if chosen == "" {
			chosen = fmt.Sprint(claim.Size, "?")
		}
		words = append(words, claim.Pod.Name+"/"+claim.Container+":"+chosen)
	}
	return strings.Join(words, " ")
}

// withInit gives a Pod a first container, an init container that wants so many
// GPUs.
func withInit(pod *corev1.Pod, amount int64, policy *corev1.ContainerRestartPolicy) *corev1.Pod {
	init := container("init", amount)
	init.RestartPolicy = policy
	pod.Spec.InitContainers = append([]corev1.Container{init}, pod.Spec.InitContainers...)
	return pod
}

func claimsOn(pods ...*corev1.Pod) *PodClaims {
	return NewPodClaims(func() []*corev1.Pod { return pods }, clock.RealClock{}, percentResource)
}

func TestTheKubeletWaitsForAPodThatItHeardOfFirst(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	var mu sync.Mutex
	var pods []*corev1.Pod
	claims := NewPodClaims(func() []*corev1.Pod {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(pods)
	}, fake)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		claims.Await(t.Context(), gpuResource, 2)
	}()
	// step lets the next look happen.
	step := func() {
		for !fake.HasWaiters() {
			select {
			case <-answered:
				return
			case <-time.After(time.Millisecond):
			}
		}
		fake.Step(lookEvery)
	}
	step()
	select {
	case <-answered:
		t.Fatal("it does not wait")
	default:
	}
	mu.Lock()
	pods = append(pods, claimant(t, "late", 0, "GPU-0", "GPU-1"))
	mu.Unlock()
	step()
	select {
	case <-answered:
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	if waited := fake.Since(time.Unix(0, 0)); waited >= patience {
		t.Errorf("it has waited for %v although the Pod is known", waited)
	}
}

func TestNobodyWaitsForLongForAPodThatDoesNotCome(t *testing.T) {
	t.Parallel()
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	claims := NewPodClaims(func() []*corev1.Pod { return nil }, fake)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		claims.Await(t.Context(), gpuResource, 2)
	}()
	for {
		select {
		case <-answered:
			if waited := fake.Since(time.Unix(0, 0)); waited != patience {
				t.Errorf("it has waited for %v, want %v", waited, patience)
			}
			return
		case <-time.After(time.Millisecond):
			if fake.HasWaiters() {
				fake.Step(lookEvery)
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
			[]*corev1.Pod{claimant(t, "a", 2, "1"), claimant(t, "b", 1, "2"), claimant(t, "c", 3, "3")}, "b/c:2 a/c:1 c/c:3"},
		"then the oldest Pod": {
			[]*corev1.Pod{
				with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(2, 0) }),
				with(claimant(t, "b", 1, "2"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(1, 0) }),
			}, "b/c:2 a/c:1"},
		"then the names decide": {[]*corev1.Pod{claimant(t, "b", 1, "2"), claimant(t, "a", 1, "1")}, "a/c:1 b/c:2"},
		"a Pod that has started has its devices": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.Status.StartTime = &started })}, ""},
		"a Pod that has ended needs none": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, ""},
		"a Pod that is going needs none": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.DeletionTimestamp = &started })}, ""},
		"a Pod without the annotation waits for anything": {
			[]*corev1.Pod{without(claimant(t, "a", 1, "1", "2")), claimant(t, "b", 2, "2")}, "a/c:2? b/c:2"},
		"so does one whose annotation can't be read": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) {
				p.Annotations[inventory.AssignmentAnnotation] = "{"
			}), claimant(t, "b", 1, "2")}, "a/c:1? b/c:2"},
		"a Pod that wants nothing does not wait": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.Spec.Containers[0] = container("c", 0) })}, ""},
		"a choice of more than the container wants is void": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1", "2"), func(p *corev1.Pod) { p.Spec.Containers[0] = container("c", 1) })}, "a/c:1?"},
		"a choice for another container is void": {
			[]*corev1.Pod{with(claimant(t, "a", 1, "1"), func(p *corev1.Pod) { p.Spec.Containers[0].Name = "d" })}, "a/d:1?"},
		"init containers come first": {
			[]*corev1.Pod{with(withInit(claimant(t, "a", 1, "1"), 1, nil), func(p *corev1.Pod) {
				p.Annotations[inventory.AssignmentAnnotation] =
					`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1"]},"init":{"falldio.com/gpu":["2"]}}}`
			})}, "a/init:2 a/c:1"},
		"an init container without a choice gets what is chosen for its Pod": {
			[]*corev1.Pod{withInit(claimant(t, "a", 1, "1", "2", "3"), 2, nil)}, "a/init:1,2 a/c:1,2,3"},
		"not what is chosen for another init container": {
			[]*corev1.Pod{with(withInit(claimant(t, "a", 1, "1"), 1, nil), func(p *corev1.Pod) {
				p.Spec.InitContainers = append(p.Spec.InitContainers, container("second", 1))
				p.Annotations[inventory.AssignmentAnnotation] =
					`{"version":"v1","containers":{"c":{"falldio.com/gpu":["1"]},"second":{"falldio.com/gpu":["2"]}}}`
			})}, "a/init:1 a/second:2 a/c:1"},
		"if that suffices": {
			[]*corev1.Pod{withInit(claimant(t, "a", 1, "1"), 2, nil)}, "a/init:2? a/c:1"},
		"a sidecar keeps its devices, so it gets others": {
			[]*corev1.Pod{withInit(claimant(t, "a", 1, "1", "2"), 1, new(corev1.ContainerRestartPolicyAlways))}, "a/init:1? a/c:1,2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(test.want, show(claimsOn(test.pods...).Pending(gpuResource))); diff != "" {
				t.Errorf("Pending() (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaimsAreSettled lets things happen one after another.
func TestClaimsAreSettled(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	claims := NewPodClaims(func() []*corev1.Pod { return pods }, clock.RealClock{})
	bind := func(bound ...*corev1.Pod) func() { return func() { pods = bound } }
	taken := func(ids ...string) func() { return func() { claims.Taken(gpuResource, ids) } }
	start := func(pod int) func() {
		return func() { pods[pod].Status.StartTime = new(metav1.Unix(2000, 0)) }
	}
	steps := []struct {
		what string
		do   func()
		want string
	}{
		{"Pods of two sizes", bind(claimant(t, "a", 1, "1", "2"), claimant(t, "b", 2, "3", "4"), claimant(t, "c", 3, "3", "4"), claimant(t, "d", 4, "5")),
			"a/c:1,2 b/c:3,4 c/c:3,4 d/c:5"},
		{"a claim, in any order", taken("4", "3"), "a/c:1,2 c/c:3,4 d/c:5"},
		{"another resource", func() { claims.Taken("falldio.com/rdma", []string{"5"}) }, "a/c:1,2 c/c:3,4 d/c:5"},
		{"the same devices again", taken("3", "4"), "a/c:1,2 d/c:5"},
		{"devices that nobody claims are the oldest Pod's", taken("8", "9"), "d/c:5"},
		{"devices of nobody who is known", taken("1", "2"), "d/c:5"},
		{"their Pod comes, and another one after it", func() {
			pods = append(pods, claimant(t, "f", 6, "7", "8"), claimant(t, "e", 5, "6", "7"))
		}, "d/c:5 f/c:7,8"},
		{"a Pod that comes back claims again", func() { pods[0].UID = "another" }, "a/c:1,2 d/c:5 f/c:7,8"},
		{"a Pod that has started does not wait", start(0), "d/c:5 f/c:7,8"},
		{"Pods that nothing is chosen for wait as well", bind(without(claimant(t, "g", 7, "1")), claimant(t, "h", 8, "2")), "g/c:1? h/c:2"},
		{"and are settled", taken("9"), "h/c:2"},
	}
	for _, step := range steps {
		step.do()
		if diff := cmp.Diff(step.want, show(claims.Pending(gpuResource))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.what, diff)
		}
	}
	if len(claims.taken) != 1 {
		t.Errorf("Pods that are gone are remembered: %v", claims.taken)
	}
}

// lists returns what the kubelet tells: "pod:id,id …".
func lists(words ...string) []podresources.Allocation {
	var allocations []podresources.Allocation
	for _, word := range words {
		pod, ids, _ := strings.Cut(word, ":")
		allocations = append(allocations, podresources.Allocation{
			Namespace: "ns", Pod: pod, Container: "c", Resource: gpuResource, DeviceIDs: strings.Split(ids, ","),
		})
	}
	return allocations
}

func TestTheKubeletTellsWhoHasDevices(t *testing.T) {
	t.Parallel()
	a, b := claimant(t, "a", 1, "1", "2"), claimant(t, "b", 2, "3", "4")
	// told is what the kubelet tells, time after time.
	type told = [][]podresources.Allocation
	tests := map[string]struct {
		// taken is what is given to a Pod before any is known; before and after
		// are what the kubelet tells before the Pods are known and after it.
		taken         []string
		before, after told
		want          string
	}{
		"a Pod that has what was chosen for it does not wait": {nil, nil, told{lists("b:3,4", "gone:8")}, "a/c:1,2"},
		"a Pod may have the devices of a predecessor":         {nil, nil, told{lists("a:8,9")}, "a/c:1,2 b/c:3,4"},
		"a predecessor may have had the same devices":         {nil, nil, told{lists("a:1,2"), nil}, "a/c:1,2 b/c:3,4"},
		"devices that were taken early have an owner":         {[]string{"8", "9"}, told{lists("b:8,9")}, nil, "a/c:1,2"},
		"it may become known with the owner":                  {[]string{"8", "9"}, nil, told{lists("b:8,9")}, "a/c:1,2"},
		"until then they are those of the oldest":             {[]string{"8", "9"}, told{nil}, nil, "b/c:3,4"},
		"an owner that never comes settles nothing":           {[]string{"8", "9"}, told{lists("x:8,9")}, told{lists("x:8,9")}, "a/c:1,2 b/c:3,4"},
		"nor does one that the kubelet never tells of":        {[]string{"8", "9"}, told{nil, nil}, nil, "a/c:1,2 b/c:3,4"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pods []*corev1.Pod
			claims := NewPodClaims(func() []*corev1.Pod { return pods }, clock.RealClock{})
			if test.taken != nil {
				claims.Taken(gpuResource, test.taken)
			}
			for _, allocations := range test.before {
				claims.Observe(allocations)
			}
			pods = []*corev1.Pod{a, b}
			for _, allocations := range test.after {
				claims.Observe(allocations)
			}
			if diff := cmp.Diff(test.want, show(claims.Pending(gpuResource))); diff != "" {
				t.Errorf("Pending() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEarlyAllocationsAreForgotten(t *testing.T) {
	t.Parallel()
	var pods []*corev1.Pod
	claims := NewPodClaims(func() []*corev1.Pod { return pods }, clock.RealClock{})
	steps := []struct {
		what string
		do   func()
		want int
	}{
		{"two are made", func() { claims.Taken(gpuResource, []string{"1"}); claims.Taken(gpuResource, []string{"2"}) }, 2},
		{"the kubelet may not tell of them at once", func() { claims.Observe(nil) }, 2},
		{"what it never tells of is no Pod's", func() { claims.Observe(lists("a:1")) }, 1},
		{"the other one's Pod may be late", func() { claims.Observe(lists("a:1")) }, 1},
		{"until it comes, even if it has started by then", func() {
			pods = []*corev1.Pod{with(claimant(t, "a", 1, "5"), func(p *corev1.Pod) { p.Status.StartTime = new(metav1.Unix(2000, 0)) })}
			claims.Observe(lists("a:1"))
		}, 0},
		{"there is a limit", func() {
			for range 2 * maxEarly {
				claims.Taken(gpuResource, []string{"3"})
			}
		}, maxEarly},
	}
	for _, step := range steps {
		step.do()
		if len(claims.early) != step.want {
			t.Errorf("%s: %d are remembered, want %d", step.what, len(claims.early), step.want)
		}
	}
}
