// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	"falldio.github.io/gpu-controller/pkg/inventory"
)

// crowded returns a cluster of some nodes whose Pods, so many on each, want no GPUs, and of
// one node "z" with one Pod and four cards.
func crowded(t *testing.T, podsPerNode int) (*world, *Mirror) {
	t.Helper()
	w, m := newWorld(t), newMirror(t)
	for i := range 100 {
		name := fmt.Sprint("n", i)
		w.set(aNode(t, name, nil))
		for j := range podsPerNode {
			w.add(on(t, aPod(fmt.Sprint(name, "-", j), 0, 0), name))
		}
	}
	w.set(aNode(t, "z", cards("z", 4)))
	w.add(on(t, aPod("last", 1, 0), "z", "z-0"))
	return w, m
}

// countingInfo is a node of a snapshot that counts the Pods that are read from it.
type countingInfo struct {
	fwk.NodeInfo
	pods *int
}

func (i *countingInfo) GetPods() []fwk.PodInfo {
	list := i.NodeInfo.GetPods()
	*i.pods += len(list)
	return list
}

// countingSnapshot returns a function that returns the snapshot of a cluster, in which a
// node that stays is the same object each time, as in the scheduler's snapshots. What is
// read from it is added to pods.
func countingSnapshot(w *world, pods *int) func() []fwk.NodeInfo {
	counting := map[fwk.NodeInfo]*countingInfo{}
	return func() []fwk.NodeInfo {
		list := w.snapshot()
		for i, info := range list {
			if counting[info] == nil {
				counting[info] = &countingInfo{info, pods}
			}
			list[i] = counting[info]
		}
		return list
	}
}

// changesOfANode are changes of the node "z" of a crowded cluster.
func changesOfANode() map[string]func(t *testing.T, w *world, refresh func()) func() {
	return map[string]func(t *testing.T, w *world, refresh func()) func(){
		"its cards change places": func(t *testing.T, w *world, refresh func()) func() {
			t.Helper()
			listed := cards("z", 4)
			return func() {
				listed = slices.Clone(listed)
				slices.Reverse(listed)
				w.set(withCards(t, w.infos["z"].Node(), listed))
				refresh()
			}
		},
		"it goes and comes back": func(t *testing.T, w *world, refresh func()) func() {
			t.Helper()
			return func() {
				w.drop("z")
				refresh()
				w.set(aNode(t, "z", []inventory.GPU{card("z-0")}))
				w.add(on(t, aPod("last", 1, 0), "z", "z-0"))
				refresh()
			}
		},
	}
}

func TestAChangeOfANodeReadsThePodsOfThatNodeOnly(t *testing.T) {
	t.Parallel()
	for name, change := range changesOfANode() {
		t.Run(name, func(t *testing.T) {
			w, m := crowded(t, 10)
			read := 0
			current := countingSnapshot(w, &read)
			m.Refresh(current())
			if read != 100*10+1 {
				t.Fatalf("%d Pods were read of a cluster that is new, want all 1001", read)
			}
			read = 0
			change(t, w, func() { m.Refresh(current()) })()
			if read != 1 {
				t.Errorf("%d Pods were read, want the one of the node", read)
			}
		})
	}
}
