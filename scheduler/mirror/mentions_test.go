// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// hostile returns shapes of Pods that mention labels, values of labels and resources that no other does.
func hostile(t *testing.T, count int) []*placement.Shape {
	t.Helper()
	list := make([]*placement.Shape, count)
	for i := range list {
		pod := aPod(fmt.Sprint("hostile-", i), 1, 0)
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprint("example.com/none-", i))] = resource.MustParse("1")
		pod.Spec.NodeSelector = map[string]string{fmt.Sprint("key-", i): "x", "disk": fmt.Sprint("value-", i)}
		shape := shapeOf(t, pod)
		list[i] = &shape
	}
	return list
}

// withDisks returns a world of nodes, every other one with an ssd.
func withDisks(t *testing.T, count int) *world {
	t.Helper()
	w := newWorld(t)
	for i := range count {
		node := aNode(t, fmt.Sprint("n", i), cards(fmt.Sprint("n", i), 4))
		node.Labels["disk"] = []string{"hdd", "ssd"}[i%2]
		w.set(node)
	}
	return w
}

// outdated counts the nodes that are described anew with the next Refresh.
func (m *Mirror) outdatedNodes() (count int) {
	for _, n := range m.nodes {
		if n.outdated {
			count++
		}
	}
	return count
}

// What Pods mention costs nothing unless nodes have it: not when it is mentioned, and not in any later cycle.
func TestWhatNoNodeHasCostsNoCycleAnything(t *testing.T) { //nolint:paralleltest // it counts allocations
	w, m := withDisks(t, 20), newMirror(t)
	infos := w.snapshot()
	m.Refresh(infos)
	first := hostile(t, 1)[0]
	if m.Watch(first); m.outdatedNodes() != 20 {
		t.Errorf("when the disk of nodes matters for the first time, %d are described anew, want all", m.outdatedNodes())
	}
	m.Refresh(infos)
	idle, version, nodes := testing.AllocsPerRun(10, func() { m.Refresh(infos) }), m.Version(), m.NodesVersion()
	for _, shape := range hostile(t, 5000) {
		if !m.Watch(shape) || m.outdatedNodes() > 0 {
			t.Fatalf("%d nodes are described anew for what none of them has", m.outdatedNodes())
		}
	}
	if got := testing.AllocsPerRun(10, func() { m.Refresh(infos) }); got > idle || m.Version() != version || m.NodesVersion() != nodes {
		t.Errorf("an idle cycle allocates %v times, %v before; nodes have changed: %t", got, idle, m.NodesVersion() != nodes)
	}
	states := 0
	m.With(func(c *placement.Cluster) { c.Root().States(func(*placement.State, int) { states++ }) })
	if states != 1 {
		t.Errorf("the nodes are %d different ones, want 1: no Pod can tell them apart", states)
	}
	m.Forget(slices.Values([]*placement.Shape(nil)))
	m.Forget(slices.Values([]*placement.Shape(nil)))
	if size := m.Size(); size.Mentions != 0 {
		t.Errorf("%d labels, values and resources are tracked although no Pod is left", size.Mentions)
	}
}

func TestNodesAreToldApartAsLongAsAPodAsksForADifference(t *testing.T) {
	t.Parallel()
	w, m := withDisks(t, 20), newMirror(t)
	m.Refresh(w.snapshot())
	pod := aPod("picky", 1, 0)
	pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	picky := shapeOf(t, pod)
	states := func() (count int) {
		m.Refresh(w.snapshot())
		m.With(func(c *placement.Cluster) { c.Root().States(func(*placement.State, int) { count++ }) })
		return count
	}
	if m.Watch(&picky) || states() != 2 || roomFor(w, m, picky) != 40 {
		t.Errorf("with a Pod that asks for a disk, the nodes are %d different ones with room for %d, want 2 and 40", states(), roomFor(w, m, picky))
	}
	for range 3 {
		m.Forget(slices.Values([]*placement.Shape{&picky}))
	}
	if states() != 2 || roomFor(w, m, picky) != 40 {
		t.Errorf("while it waits, the nodes are %d different ones with room for %d, want 2 and 40", states(), roomFor(w, m, picky))
	}
	for range 2 {
		m.Forget(slices.Values([]*placement.Shape(nil)))
	}
	if states() != 1 || m.Size().Mentions != 0 {
		t.Errorf("when it is gone, the nodes are %d different ones, and %d mentions are kept", states(), m.Size().Mentions)
	}
}

// What was learned as demand is remembered for long: prices depend on it.
func TestNodesAreToldApartForDemandThatWasLearned(t *testing.T) {
	t.Parallel()
	w, m := withDisks(t, 4), newMirror(t)
	m.Refresh(w.snapshot())
	pod := aPod("picky", 1, 0)
	pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	picky := shapeOf(t, pod)
	m.Watch(&picky)
	m.Refresh(w.snapshot())
	m.Learn(picky, false)
	for range 3 {
		m.Forget(slices.Values([]*placement.Shape(nil)))
	}
	if got := roomFor(w, m, picky); got != 8 {
		t.Errorf("there is room for %d Pods, want 8 on the nodes with an ssd", got)
	}
}
