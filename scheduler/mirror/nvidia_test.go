// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// asNVIDIA returns the Pod with its GPUs asked for as nvidia.com/gpu.
func asNVIDIA(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	requests := pod.Spec.Containers[0].Resources.Requests
	requests[v1.ResourceNVIDIAGPU] = requests[v1.ResourceGPU]
	delete(requests, v1.ResourceGPU)
	return pod
}

// alsoNVIDIA returns the node with its GPUs offered under both names.
func alsoNVIDIA(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	node.Status.Allocatable[v1.ResourceNVIDIAGPU] = node.Status.Allocatable[v1.ResourceGPU]
	return node
}

// onlyNVIDIA returns the node with its GPUs offered by NVIDIA's device plugin.
func onlyNVIDIA(node *corev1.Node) *corev1.Node {
	node = alsoNVIDIA(node)
	delete(node.Status.Allocatable, v1.ResourceGPU)
	return node
}

// withoutAgent returns the node with cards that have no names.
func withoutAgent(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	delete(node.Annotations, inventory.Annotation)
	return node
}

func TestCardsAreCountedOnceForBothNames(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, alsoNVIDIA(aNode(t, "a", cards("a", 4)))), newMirror(t)
	theirs, ours := shapeOf(t, asNVIDIA(aPod("theirs", 1, 0))), shapeOf(t, aPod("ours", 1, 0))
	w.add(on(t, aPod("a", 1, 0), "a", "a-0"), on(t, asNVIDIA(aPod("b", 2, 0)), "a"))
	for name, shape := range map[string]placement.Shape{"as nvidia.com/gpu": theirs, "as falldio.com/gpu": ours} {
		m.Watch(&shape)
		if got := roomFor(w, m, shape); got != 1 {
			t.Errorf("room for %d Pods that ask for one GPU %s, want 1 of 4", got, name)
		}
	}
}

func TestASeatOnACardOfNVIDIAsPluginHasNoAssignment(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]*corev1.Node{
		"cards without names":            withoutAgent(onlyNVIDIA(aNode(t, "a", cards("a", 2)))),
		"cards that an agent names":      onlyNVIDIA(aNode(t, "a", cards("a", 2))),
		"cards that are offered as both": alsoNVIDIA(aNode(t, "a", cards("a", 2))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, m := newWorld(t, node), newMirror(t)
			m.Refresh(w.snapshot())
			pod := asNVIDIA(aPod("p", 2, 0))
			hold(t, m, pod, "a")
			if text, err := m.Assignment(pod); text != "" || err != nil {
				t.Errorf("assignment %q, error %v, want none", text, err)
			}
			if got := roomFor(w, m, shapeOf(t, asNVIDIA(aPod("q", 1, 0)))); got != 0 {
				t.Errorf("room for %d Pods beside the seat, want 0", got)
			}
			w.add(on(t, pod, "a"))
			if got := roomFor(w, m, shapeOf(t, asNVIDIA(aPod("q", 1, 0)))); got != 0 {
				t.Errorf("room for %d Pods once the Pod is bound, want 0", got)
			}
		})
	}
}

// The seat is on the first card; NVIDIA's plugin gives another one.
func TestTheAgentSaysWhichCardsNVIDIAsPluginHasGiven(t *testing.T) {
	t.Parallel()
	gpus := cards("a", 2)
	gpus[1].MemoryMiB *= 2
	w, m := newWorld(t, onlyNVIDIA(aNode(t, "a", gpus))), newMirror(t)
	m.Refresh(w.snapshot())
	large := shapeOf(t, asNVIDIA(aPod("large", 1, 0)))
	large.GPUMemory = gpus[1].MemoryMiB
	pod := asNVIDIA(aPod("p", 1, 0))
	place := hold(t, m, pod, "a")
	if place.GPUs[0] != 0 {
		t.Fatalf("the seat is on card %v, want the smaller one", place.GPUs)
	}
	bound := on(t, pod, "a")
	w.add(bound)
	if got := roomFor(w, m, large); got != 1 {
		t.Errorf("room for %d Pods on the larger card, want 1", got)
	}
	said := bound.DeepCopy()
	metav1.SetMetaDataAnnotation(&said.ObjectMeta, inventory.AssignmentAnnotation, `{"version":"v1","containers":{"main":{"nvidia.com/gpu":["a-1"]}}}`)
	w.change(bound, said)
	if got := roomFor(w, m, large); got != 0 {
		t.Errorf("room for %d Pods on the larger card, which the Pod has got, want 0", got)
	}
}

func TestGPUsOfNVIDIAAreCountedFromTheFirstNodeThatListsThem(t *testing.T) {
	t.Parallel()
	w, m := newWorld(t, aNode(t, "a", cards("a", 4))), newMirror(t)
	shape := shapeOf(t, asNVIDIA(aPod("p", 1, 0)))
	m.Refresh(w.snapshot())
	if !m.Watch(&shape) {
		t.Fatal("nodes have to be updated although none lists the resource")
	}
	if m.Lists(v1.ResourceNVIDIAGPU) {
		t.Error("it is listed, but no node lists it")
	}
	node := onlyNVIDIA(aNode(t, "b", cards("b", 4)))
	node.Status.Allocatable[v1.ResourceNVIDIAGPU] = resource.MustParse("4")
	w.set(node)
	if got := roomFor(w, m, shape); got != 4 || !m.Lists(v1.ResourceNVIDIAGPU) {
		t.Errorf("room for %d Pods, want 4 on the node that lists it", got)
	}
}
