// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const adapters = "rdma/hca"

// withAdapters returns a node that lists network adapters.
func withAdapters(node *corev1.Node, count string) *corev1.Node {
	node = node.DeepCopy()
	node.Status.Allocatable[adapters] = resource.MustParse(count)
	return node
}

// needing returns a Pod that requests network adapters.
func needing(pod *corev1.Pod, count string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.Containers[0].Resources.Requests[adapters] = resource.MustParse(count)
	return pod
}

func shapeOf(t *testing.T, pod *corev1.Pod) placement.Shape {
	t.Helper()
	shape, err := snapshot.Shape(pod)
	if err != nil {
		t.Fatal(err)
	}
	return shape
}

// roomFor refreshes the mirror and returns how many Pods of a shape fit.
func roomFor(w *world, m *Mirror, shape placement.Shape) (pods int) {
	m.Refresh(w.snapshot())
	m.With(func(cluster *placement.Cluster) { pods = cluster.Root().Room(cluster.Request(m.Counted(shape))) })
	return pods
}

func TestAResourceIsCountedOnceAPodRequestsIt(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, withAdapters(aNode(t, "a", cards("a", 4)), "3"), aNode(t, "b", cards("b", 4))), newMirror(t)
	w.add(needing(on(t, aPod("running", 1, 0), "a", "a-0"), "2"))
	m.Refresh(w.snapshot())
	waiting := shapeOf(t, needing(aPod("waiting", 1, 0), "1"))
	if m.Watch(&waiting) {
		t.Fatal("the resource is known although no Pod has requested it")
	}
	if got := roomFor(w, m, waiting); got != 1 {
		t.Errorf("room for %d Pods, want 1: there is one adapter left", got)
	}
	if !m.Watch(&waiting) {
		t.Error("it is not known after the refresh")
	}
	w.set(withAdapters(aNode(t, "b", cards("b", 4)), "2"))
	if got := roomFor(w, m, waiting); got != 3 {
		t.Errorf("with a second node room for %d Pods, want 3", got)
	}
}

func TestAResourceThatNoNodeListsIsLeftToKubeScheduler(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 4)), aNode(t, "b", cards("b", 4))), newMirror(t)
	waiting := shapeOf(t, needing(aPod("waiting", 1, 0), "1"))
	m.Watch(&waiting)
	if got := roomFor(w, m, waiting); got != 8 {
		t.Errorf("room for %d Pods, want 8", got)
	}
	w.set(withAdapters(aNode(t, "b", cards("b", 4)), "2"))
	if got := roomFor(w, m, waiting); got != 2 {
		t.Errorf("once a node lists it, room for %d Pods, want 2", got)
	}
}

func TestAPodThatSelectsAHostnameLeavesNodesAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		node := aNode(t, name, cards(name, 4))
		node.Labels[corev1.LabelHostname] = "host-" + name
		w.set(node)
	}
	m := newMirror(t)
	m.Refresh(w.snapshot())
	pod := aPod("pinned", 1, 0)
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "host-b"}
	shape := shapeOf(t, pod)
	if !m.Watch(&shape) {
		t.Error("all nodes have to be updated")
	}
	if got := roomFor(w, m, shape); got != 4 {
		t.Errorf("room for %d Pods, want 4", got)
	}
	states := 0
	m.With(func(cluster *placement.Cluster) { cluster.Root().States(func(*placement.State, int) { states++ }) })
	if states != 1 {
		t.Errorf("the nodes are in %d States, want 1", states)
	}
	renamed := w.infos["b"].Node().DeepCopy()
	renamed.Labels[corev1.LabelHostname] = "host-x"
	w.set(renamed)
	if got := roomFor(w, m, shape); got != 0 {
		t.Errorf("when the host has another name, there is room for %d Pods, want none", got)
	}
}

func TestASeatWithholdsItsOtherResources(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, withAdapters(aNode(t, "a", cards("a", 4)), "3")), newMirror(t)
	pods := []*corev1.Pod{needing(aPod("one", 1, 0), "1"), needing(aPod("two", 1, 0), "1")}
	waiting := shapeOf(t, pods[0])
	m.Watch(&waiting)
	m.Refresh(w.snapshot())
	for _, pod := range pods {
		hold(t, m, pod, "a")
	}
	if diff := cmp.Diff(placement.Amounts{{Resource: adapters, Value: 2}}, seatedOn(m, "a").Others); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	if got := roomFor(w, m, waiting); got != 1 {
		t.Errorf("room for %d Pods, want 1", got)
	}
	w.add(on(t, pods[0], "a", "a-0"))
	m.Refresh(w.snapshot())
	if diff := cmp.Diff(placement.Amounts{{Resource: adapters, Value: 1}}, seatedOn(m, "a").Others); diff != "" {
		t.Errorf("when a Pod is there, withheld are (-want +got):\n%s", diff)
	}
}
