// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	v1 "falldio.github.io/gpu-controller/pkg/apis/gpucontroller/v1"
	"falldio.github.io/gpu-controller/pkg/inventory"
)

func TestFreedChangesWhenThereMayBeMoreRoom(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakePassiveClock(beginning)
	stays, seated := func(t *testing.T) *corev1.Pod { t.Helper(); return on(t, aPod("stays", 2, 0), "a", "a-0", "a-1") }, aPod("seated", 1, 0)
	tests := map[string]struct {
		do   func(t *testing.T, w *world, m *Mirror)
		want bool
	}{
		"nothing happens":           {do: func(*testing.T, *world, *Mirror) {}},
		"a Pod comes":               {do: func(t *testing.T, w *world, _ *Mirror) { t.Helper(); w.add(on(t, aPod("new", 1, 0), "a", "a-3")) }},
		"a Pod gets a seat":         {do: func(t *testing.T, _ *world, m *Mirror) { t.Helper(); hold(t, m, aPod("new", 1, 0), "a") }},
		"a Pod with a seat appears": {do: func(t *testing.T, w *world, _ *Mirror) { t.Helper(); w.add(on(t, seated, "a", "a-2")) }},
		"a Pod's status changes": {do: func(t *testing.T, w *world, _ *Mirror) {
			t.Helper()
			after := stays(t)
			after.Status.Phase = corev1.PodRunning
			w.change(stays(t), after)
		}},
		"a node changes in nothing that counts": {do: func(_ *testing.T, w *world, _ *Mirror) {
			node := w.infos["a"].Node().DeepCopy()
			node.Annotations["touched"] = "true"
			w.set(node)
		}},
		"a node goes": {do: func(_ *testing.T, w *world, _ *Mirror) { w.drop("b") }},
		"a Pod goes":  {func(t *testing.T, w *world, _ *Mirror) { t.Helper(); w.remove(stays(t)) }, true},
		"a Pod holds other cards": {func(t *testing.T, w *world, _ *Mirror) {
			t.Helper()
			w.change(stays(t), on(t, stays(t), "a", "a-0", "a-3"))
		}, true},
		"a seat is given back": {func(_ *testing.T, _ *world, m *Mirror) { m.Release([]types.UID{"seated"}) }, true},
		"a node comes":         {func(t *testing.T, w *world, _ *Mirror) { t.Helper(); w.set(aNode(t, "c", cards("c", 4))) }, true},
		"a node is opened": {func(_ *testing.T, w *world, _ *Mirror) {
			relabel(w, "b", func(n *corev1.Node) { n.Spec.Unschedulable = true })
		}, true},
		"a node is in another leaf": {func(_ *testing.T, w *world, _ *Mirror) {
			relabel(w, "b", func(n *corev1.Node) { n.Labels[v1.LabelLeaf] = "z" })
		}, true},
		"the cards change places": {func(t *testing.T, w *world, _ *Mirror) {
			t.Helper()
			w.set(withCards(t, w.infos["a"].Node(), reversed("a")))
		}, true},
		"a reservation is removed":      {func(t *testing.T, w *world, _ *Mirror) { t.Helper(); w.set(keeping(t, w.infos["b"].Node())) }, true},
		"a reservation expires by time": {func(_ *testing.T, _ *world, _ *Mirror) { clock.SetTime(beginning.Add(time.Hour)) }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock.SetTime(beginning)
			w, m := newWorld(t, aNode(t, "a", cards("a", 4)), keeping(t, aNode(t, "b", cards("b", 4)), moved("other"))), mirrorAt(t, clock)
			w.add(stays(t))
			m.Refresh(w.snapshot())
			hold(t, m, seated, "a")
			before := m.Freed()
			test.do(t, w, m)
			m.Refresh(w.snapshot())
			if got := m.Freed() != before; got != test.want {
				t.Errorf("it changes: %t, want %t", got, test.want)
			}
		})
	}
}

func relabel(w *world, name string, change func(*corev1.Node)) {
	node := w.infos[name].Node().DeepCopy()
	change(node)
	w.set(node)
}

func reversed(node string) []inventory.GPU {
	list := cards(node, 4)
	slices.Reverse(list)
	return list
}
