// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
)

const twoGPUs = `{"version":"v1","gpus":[{"index":0,"uuid":"GPU-a","memoryMiB":100,"health":"Healthy"},{"index":1,"uuid":"GPU-b","memoryMiB":100,"health":"Healthy"}]}`

func published(uuids ...string) map[string][]PublishedGPU {
	gpus := make([]PublishedGPU, len(uuids))
	for i, uuid := range uuids {
		gpus[i] = PublishedGPU{UUID: uuid, Model: "h100", MemoryMiB: 80, NUMANode: i}
	}
	return map[string][]PublishedGPU{"n": gpus}
}

// withoutPlugin makes a node whose kubelet offers no GPUs.
func withoutPlugin(n *corev1.Node) {
	delete(n.Status.Allocatable, v1.ResourceGPU)
	delete(n.Status.Allocatable, v1.ResourceGPUPercent)
}

func TestGPUsThatADriverGivesOut(t *testing.T) {
	t.Parallel()
	over := labelled(v1.LabelGPUAllocation, v1.AllocationDRA)
	card := func(broken bool) placement.GPU {
		return placement.GPU{Memory: 100, Group: -1, NUMA: -1, Broken: broken}
	}
	tests := map[string]struct {
		node      *corev1.Node
		published map[string][]PublishedGPU
		want      []placement.GPU
		paused    bool
	}{
		"those of our driver, for programs that don't see devices": {
			node(over, listing(twoGPUs), withoutPlugin), nil, []placement.GPU{card(false), card(false)}, false,
		},
		"those of our driver, one of which it does not publish": {
			node(over, listing(twoGPUs), withoutPlugin), published("GPU-b"), []placement.GPU{card(true), card(false)}, false,
		},
		"those of our driver while it is away": {
			node(over, listing(twoGPUs), withoutPlugin), published(), []placement.GPU{card(true), card(true)}, true,
		},
		"those of another driver, on a node with an agent": {
			node(listing(twoGPUs), withoutPlugin), published("GPU-a", "GPU-b"), []placement.GPU{card(false), card(false)}, false,
		},
		"those of another driver, on a node without an agent": {
			node(withoutPlugin), published("GPU-a", "GPU-b"), []placement.GPU{{Memory: 80, Group: -1, NUMA: 0}, {Memory: 80, Group: -1, NUMA: 1}}, false,
		},
		"those that nobody gives out": {
			node(listing(twoGPUs), withoutPlugin), nil, []placement.GPU{card(true), card(true)}, true,
		},
		"those of the device plugin, which has not left yet": {
			node(over, listing(twoGPUs), offering(v1.ResourceGPU, "2")), published("GPU-a"), []placement.GPU{card(false), card(false)}, false,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.node.Name = "n"
			view := NodeView{Published: test.published}
			described, cards, err := view.Node(test.node)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, described.GPUs); diff != "" || cards.Paused() != test.paused {
				t.Errorf("paused %t, GPUs (-want +got):\n%s", cards.Paused(), diff)
			}
		})
	}
}

func TestTaintedDevicesAreBroken(t *testing.T) {
	t.Parallel()
	gpus := published("GPU-a", "GPU-b")
	gpus["n"][1].Tainted = true
	view, n := NodeView{Published: gpus}, node(withoutPlugin)
	n.Name = "n"
	described, _, err := view.Node(n)
	if err != nil {
		t.Fatal(err)
	}
	if described.GPUs[0].Broken || !described.GPUs[1].Broken || described.Model != "h100" {
		t.Errorf("model %s, GPUs %+v", described.Model, described.GPUs)
	}
}

func TestPodsGoWhereTheirKindOfRequestIsServed(t *testing.T) {
	t.Parallel()
	over := node(labelled(v1.LabelGPUAllocation, v1.AllocationDRA), listing(twoGPUs), withoutPlugin)
	plugin := node(listing(twoGPUs), offering(v1.ResourceGPU, "2"), offering(v1.ResourceGPUPercent, "200"))
	foreign := node(withoutPlugin)
	for name, test := range map[string]struct {
		node      *corev1.Node
		published bool
		want      map[corev1.ResourceName]bool
	}{
		"our driver":       {over, true, map[corev1.ResourceName]bool{v1.ResourceGPU: true, v1.ResourceGPUPercent: false, v1.ResourceNVIDIAGPU: false, ResourceClaims: true}},
		"our driver, away": {over, false, map[corev1.ResourceName]bool{v1.ResourceGPU: true, v1.ResourceGPUPercent: false, v1.ResourceNVIDIAGPU: false, ResourceClaims: false}},
		"the plugin":       {plugin, false, map[corev1.ResourceName]bool{v1.ResourceGPU: true, v1.ResourceGPUPercent: true, v1.ResourceNVIDIAGPU: false, ResourceClaims: false}},
		"another driver":   {foreign, true, map[corev1.ResourceName]bool{v1.ResourceGPU: false, v1.ResourceGPUPercent: false, v1.ResourceNVIDIAGPU: false, ResourceClaims: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := test.node.DeepCopy()
			n.Name = "n"
			view := NodeView{Published: map[string][]PublishedGPU{}}
			if test.published {
				view.Published = published("GPU-a", "GPU-b")
			}
			text := view.traits(n)
			for resource, want := range test.want {
				selector, err := newSelector(criteria{Resource: resource})
				if err != nil {
					t.Fatal(err)
				}
				if got := selector.Admits(text) == placement.Fits; got != want {
					t.Errorf("%s is served: %t, want %t", resource, got, want)
				}
			}
		})
	}
}

func TestTheAssignmentOfClaims(t *testing.T) {
	t.Parallel()
	template := "t"
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		ResourceClaims: []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimTemplateName: &template}},
		Containers: []corev1.Container{
			{Name: "work", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpus"}}}}, {Name: "sidecar"},
		},
	}}
	cards := newCards([]string{"GPU-a", "GPU-b", "GPU-c"})
	text, err := cards.Assignment(pod, []int{0, 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"version":"v1","containers":{"work":{"resource.k8s.io/claims":["GPU-a","GPU-c"]}}}`; text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	pod.Annotations = map[string]string{inventory.AssignmentAnnotation: text}
	if indices, known := cards.Assigned(pod); !known || cmp.Diff([]int{0, 2}, indices) != "" {
		t.Errorf("assigned: %v, %t", indices, known)
	}
	shape, err := ShapeOfClaims(pod, 2)
	if err != nil || shape.GPUs != 2 || GPUResource(&shape) != ResourceClaims {
		t.Errorf("shape %s, asked for as %s, error %v", shape.String(), GPUResource(&shape), err)
	}
}
