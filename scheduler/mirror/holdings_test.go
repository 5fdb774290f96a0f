// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
	"falldio.github.io/gpu-controller/pkg/placement"
	"falldio.github.io/gpu-controller/pkg/snapshot"
)

const slice = "falldio.com/mig-2g.20gb"

// dividedNode has a whole GPU, and one that is divided into three slices.
func dividedNode(t *testing.T) *corev1.Node {
	t.Helper()
	divided := card("GPU-divided")
	divided.MIG = true
	node := aNode(t, "a", []inventory.GPU{card("GPU-whole"), divided})
	node.Status.Allocatable[slice] = resource.MustParse("3")
	return node
}

func forSlices(name, count string) *corev1.Pod {
	pod := aPod(name, 0, 0)
	pod.Spec.Containers[0].Resources.Requests[slice] = resource.MustParse(count)
	return pod
}

func TestSlicesCountAsPartsOfGPUs(t *testing.T) {
	t.Parallel()
	m, w := newMirror(t), newWorld(t, dividedNode(t))
	waiting, err := snapshot.Shape(forSlices("waits", "1"))
	if err != nil {
		t.Fatal(err)
	}
	m.Watch(&waiting)
	w.add(on(t, forSlices("b", "2"), "a"), on(t, aPod("c", 1, 0), "a", "GPU-whole"))
	m.Refresh(w.snapshot())

	held, _ := m.Holdings()
	if diff := cmp.Diff(map[Account]int{{Namespace: "default", Model: "A100"}: 157}, held); diff != "" {
		t.Errorf("what the Pods hold, in percent (-want +got):\n%s", diff)
	}
	m.With(func(c *placement.Cluster) {
		slices := map[string]string{}
		for _, holding := range m.HoldingPods() {
			slices[holding.Name] = holding.Slices
		}
		if diff := cmp.Diff(map[string]string{"b": slice, "c": ""}, slices); diff != "" {
			t.Errorf("whose slices are held (-want +got):\n%s", diff)
		}
		want := []GPUNode{{Name: "a", Model: "A100", Percent: 100}, {Name: "a", Model: "A100", Slices: slice, Percent: 85}}
		if diff := cmp.Diff(want, m.GPUNodes()); diff != "" {
			t.Errorf("nodes with GPUs (-want +got):\n%s", diff)
		}
		if got := c.RoomOn("a", c.Request(waiting)); got != 1 {
			t.Errorf("there is room for %d Pods with a slice, want 1", got)
		}
	})
}

// GPU feature discovery may label a node after its first Pods have come.
func TestPodsCountForTheModelThatTheirNodeIsLabelledWithLater(t *testing.T) {
	t.Parallel()
	node := aNode(t, "a", cards("a", 4))
	labelled := node.DeepCopy()
	labelled.Labels[v1.LabelGPUModel] = "H100"
	m, w := newMirror(t), newWorld(t, node)
	w.add(on(t, aPod("runs", 1, 0), "a", "a-0"))
	m.Refresh(w.snapshot())
	hold(t, m, aPod("comes", 2, 0), "a")
	w.set(labelled)
	m.Refresh(w.snapshot())
	held, _ := m.Holdings()
	if diff := cmp.Diff(map[Account]int{{Namespace: "default", Model: "H100"}: 300}, held); diff != "" {
		t.Errorf("what the Pods hold, in percent (-want +got):\n%s", diff)
	}
}

// Another scheduler may bind a Pod while it has a seat elsewhere.
func TestAPodThatWasBoundElsewhereCountsThereOnceItsSeatHasEnded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ends func(w *world, m *Mirror, pod *corev1.Pod)
		want int
	}{
		"it is given back":  {func(_ *world, m *Mirror, pod *corev1.Pod) { m.Release([]types.UID{pod.UID}) }, 2},
		"its node has gone": {func(w *world, _ *Mirror, _ *corev1.Pod) { w.drop("a") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, w := newMirror(t), newWorld(t, aNode(t, "a", cards("a", 4)), aNode(t, "b", cards("b", 4)))
			m.Refresh(w.snapshot())
			pod := aPod("p", 3, 0)
			hold(t, m, pod, "a")
			w.add(on(t, pod, "b"))
			m.Refresh(w.snapshot())
			before := m.Version()
			if m.Refresh(w.snapshot()); m.Version() != before {
				t.Error("nothing has changed, but nodes are counted anew")
			}
			test.ends(w, m, pod)
			if got := roomFor(w, m, shapeOf(t, aPod("next", 2, 0))); got != test.want {
				t.Errorf("there is room for %d Pods with two GPUs, want %d: on nodes that nobody uses", got, test.want)
			}
		})
	}
}
