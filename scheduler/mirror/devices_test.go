// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

func TestGPUsOfResourceClaimsAreInUse(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 4)), aNode(t, "b", cards("b", 4))), newMirror(t)
	one := shapeOf(t, aPod("one", 1, 0))
	expectRoom := func(when string, want int) {
		t.Helper()
		if got := roomFor(w, m, one); got != want {
			t.Errorf("%s, there is room for %d Pods with a GPU, want %d", when, got, want)
		}
	}
	expectRoom("At first", 8)
	if changed, released := m.SetDevices(map[string][]string{"a": {"a-1", "a-2", "unknown"}, "c": {"c-0"}}, nil); !slices.Equal(changed, []string{"a", "c"}) || released {
		t.Errorf("%v have changed, released: %t", changed, released)
	}
	expectRoom("With two GPUs in claims", 6)
	w.set(aNode(t, "c", cards("c", 1)))
	expectRoom("With a node that has come, whose GPU is in a claim", 6)

	// The node lists its cards in another order, and one is gone.
	w.set(aNode(t, "a", []inventory.GPU{card("a-2"), card("a-0"), card("a-3")}))
	expectRoom("With a card less", 6)
	w.add(on(t, aPod("p", 2, 0), "a", "a-0", "a-3"))
	expectRoom("With a Pod on the other cards", 4)

	freed := m.Freed()
	if changed, released := m.SetDevices(map[string][]string{"a": nil, "c": {"c-0"}}, nil); !slices.Equal(changed, []string{"a"}) || !released {
		t.Errorf("%v have changed, released: %t", changed, released)
	}
	expectRoom("With a GPU released", 5)
	if m.Freed() == freed {
		t.Error("nobody is told that there may be more room")
	}
	w.drop("c")
	expectRoom("Without a node", 5)
	if changed, released := m.SetDevices(map[string][]string{"c": {"c-0"}}, nil); len(changed) > 0 || released {
		t.Errorf("%v have changed, released: %t", changed, released)
	}
}

// TestDevicesTakeNoPodSlot: a claim is no Pod.
func TestDevicesTakeNoPodSlot(t *testing.T) {
	t.Parallel()
	node := aNode(t, "a", cards("a", 4))
	node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("2")
	w, m := newWorld(t, node), newMirror(t)
	m.SetDevices(map[string][]string{"a": {"a-0"}}, nil)
	if got := roomFor(w, m, shapeOf(t, aPod("one", 1, 0))); got != 2 {
		t.Errorf("room for %d Pods, want 2", got)
	}
}

// withClaimFor returns the Pod with a resource claim that kube-scheduler has made for a resource.
func withClaimFor(pod *corev1.Pod, name string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
		ResourceClaimName: "made-for-it", RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: name, RequestName: "one"}},
	}
	return pod
}

// TestAPodIsCountedOnceWithTheGPUOfItsClaim: the GPU that it asks for as nvidia.com/gpu is a
// device of a claim. Until that is known, a card is guessed.
func TestAPodIsCountedOnceWithTheGPUOfItsClaim(t *testing.T) {
	t.Parallel()
	user := on(t, asNVIDIA(aPod("user", 1, 0)), "a")
	for name, steps := range map[string]func(w *world, m *Mirror){
		"its status comes first": func(w *world, m *Mirror) {
			w.change(user, withClaimFor(user, string(v1.ResourceNVIDIAGPU)))
			m.Refresh(w.snapshot())
			m.SetDevices(map[string][]string{"a": {"a-3"}}, nil)
		},
		"the claim's devices come first": func(w *world, m *Mirror) {
			m.SetDevices(map[string][]string{"a": {"a-3"}}, nil)
			m.Refresh(w.snapshot())
			w.change(user, withClaimFor(user, string(v1.ResourceNVIDIAGPU)))
		},
		"the driver does not tell the devices' UUIDs": func(w *world, _ *Mirror) {
			w.change(user, withClaimFor(user, string(v1.ResourceNVIDIAGPU)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
			w.add(user)
			m.Refresh(w.snapshot())
			steps(w, m)
			if got := roomFor(w, m, shapeOf(t, aPod("one", 1, 0))); got != 3 {
				t.Errorf("room for %d Pods, want 3", got)
			}
		})
	}
}

// TestAPodKeepsItsGPUsBesideAClaimForSomethingElse: a claim was made for its network adapter.
func TestAPodKeepsItsGPUsBesideAClaimForSomethingElse(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
	m.SetDevices(map[string][]string{"a": {"a-3"}}, nil)
	w.add(withClaimFor(on(t, aPod("named", 1, 0), "a", "a-0"), adapters), withClaimFor(on(t, aPod("guessed", 1, 0), "a"), adapters))
	if got := roomFor(w, m, shapeOf(t, aPod("one", 1, 0))); got != 1 {
		t.Errorf("room for %d Pods, want 1", got)
	}
}

// TestAPodThatIsBeingBoundKeepsTheGPUsOfItsSeat: its status, as kube-scheduler assumes it, names its
// claim before it is known what that holds, and claims that a scheduler left behind hold others.
func TestAPodThatIsBeingBoundKeepsTheGPUsOfItsSeat(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "b", cards("b", 4))), newMirror(t)
	m.SetPublished(publishedOf("b", 4))
	m.SetDevices(map[string][]string{"b": {"b-3"}}, nil)
	m.Refresh(w.snapshot())
	pod := aPod("p", 2, 0)
	place := hold(t, m, pod, "b")
	assumed := on(t, pod, "b")
	w.add(assumed)
	m.Refresh(w.snapshot())
	w.change(assumed, withClaimFor(assumed, string(v1.ResourceGPU)))
	m.Refresh(w.snapshot())
	text, err := m.Assignment(pod)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`["b-%d","b-%d"]`, place.GPUs[0], place.GPUs[1])
	if !strings.Contains(text, want) {
		t.Errorf("the Pod is bound with %q, want the GPUs %s", text, want)
	}
	if got := roomFor(w, m, shapeOf(t, aPod("one", 1, 0))); got != 1 {
		t.Errorf("room for %d Pods, want 1", got)
	}
}

// withClaims returns the Pod with a resource claim of its own for GPUs.
func withClaims(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceGPU] = resource.MustParse("0")
	template := "gpus"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}}
	return pod
}

// publishedOf are the GPUs of a node as a driver publishes them.
func publishedOf(node string, count int) map[string][]snapshot.PublishedGPU {
	gpus := make([]snapshot.PublishedGPU, count)
	for i := range gpus {
		gpus[i] = snapshot.PublishedGPU{UUID: fmt.Sprintf("%s-%d", node, i), NUMANode: -1}
	}
	return map[string][]snapshot.PublishedGPU{node: gpus}
}

// TestGPUsOfAPodsOwnClaimsCountWithThePod, so that they are free when it leaves, and may be taken by
// preemption: its seat, its claim in the scheduler's view and the Pod come one after the other.
func TestGPUsOfAPodsOwnClaimsCountWithThePod(t *testing.T) {
	t.Parallel()
	node := aNode(t, "a", nil)
	delete(node.Annotations, inventory.Annotation)
	delete(node.Status.Allocatable, v1.ResourceGPU)
	delete(node.Status.Allocatable, v1.ResourceGPUPercent)
	w, m := newWorld(t, node), newMirror(t)
	m.SetPublished(publishedOf("a", 4))
	one, err := snapshot.ShapeOfClaims(withClaims(aPod("one", 1, 0)), 1)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(when string, free int, anonymous ...int) {
		t.Helper()
		if got := roomFor(w, m, one); got != free {
			t.Errorf("%s, there is room for %d Pods, want %d", when, got, free)
		}
		for card := range 4 {
			if held := m.HeldByClaims("a", []int{card}); held != slices.Contains(anonymous, card) {
				t.Errorf("%s, card %d is held by nobody's claim: %t", when, card, held)
			}
		}
	}
	expect("At first", 4)
	user := withClaims(aPod("user", 1, 0))
	m.Hold(user, placement.Place{Node: "a", Use: placement.Use{GPUs: []int{1, 3}, Percent: placement.Card}})
	expect("With a seat", 2)
	if node, uuids := m.CardsOverClaims(user.UID); node != "a" || !slices.Equal(uuids, []string{"a-1", "a-3"}) {
		t.Errorf("the seat is %v on %s", uuids, node)
	}
	m.SetDevices(map[string][]string{"a": {"a-1", "a-3"}}, nil)
	expect("With devices that are being allocated", 2)
	bound := on(t, user, "a")
	w.add(bound)
	m.SetDevices(map[string][]string{"a": {"a-1", "a-3"}}, map[types.UID][]string{user.UID: {"a-1", "a-3"}})
	expect("With the Pod", 2)
	m.Release([]types.UID{user.UID})
	expect("Without the seat", 2)
	w.change(bound, bound.DeepCopy())
	expect("With another version of the Pod", 2)
	w.remove(bound)
	expect("Without the Pod, whose claim is still there", 2, 1, 3)
	m.SetDevices(map[string][]string{"a": nil}, map[types.UID][]string{user.UID: nil})
	expect("Without the claim", 4)
	m.SetPublished(publishedOf("a", 1))
	expect("With fewer GPUs", 1)
}

// TestAfterARestartTheClaimsSayWhatAPodHas, not an annotation, and not a guess.
func TestAfterARestartTheClaimsSayWhatAPodHas(t *testing.T) {
	t.Parallel()
	node := aNode(t, "a", cards("a", 4))
	node.Labels[v1.LabelGPUAllocation] = v1.AllocationDRA
	delete(node.Status.Allocatable, v1.ResourceGPU)
	delete(node.Status.Allocatable, v1.ResourceGPUPercent)
	w, m := newWorld(t, node), newMirror(t)
	m.SetPublished(publishedOf("a", 4))
	user := on(t, aPod("user", 2, 0), "a", "a-0", "a-1")
	w.add(user)
	m.SetDevices(map[string][]string{"a": {"a-1", "a-2"}}, map[types.UID][]string{user.UID: {"a-1", "a-2"}})
	m.Refresh(w.snapshot())
	for card, want := range map[int]bool{0: false, 1: true, 2: true, 3: false} {
		if got := len(m.holders("a", []int{card})) > 0; got != want {
			t.Errorf("the Pod has card %d: %t, want %t", card, got, want)
		}
	}
}
