// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import (
	"fmt"
	"slices"
	"testing"
	"time"

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
	m.Refresh(w.snapshot())
	return w, m
}

// fastest returns how long the fastest of some calls took: the others may have been
// interrupted by other programs.
func fastest(do func()) time.Duration {
	least := time.Hour
	for range 20 {
		begin := time.Now()
		do()
		least = min(least, time.Since(begin))
	}
	return least
}

func TestAChangeOfANodeDoesNotCostMoreWithMorePodsElsewhere(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, w *world, m *Mirror) func(){
		"its cards change places": func(t *testing.T, w *world, m *Mirror) func() {
			t.Helper()
			listed := cards("z", 4)
			return func() {
				listed = slices.Clone(listed)
				slices.Reverse(listed)
				w.set(withCards(t, w.infos["z"].Node(), listed))
				m.Refresh(w.snapshot())
			}
		},
		"it goes and comes back": func(t *testing.T, w *world, m *Mirror) func() {
			t.Helper()
			return func() {
				w.drop("z")
				m.Refresh(w.snapshot())
				w.set(aNode(t, "z", []inventory.GPU{card("z-0")}))
				m.Refresh(w.snapshot())
			}
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			took := map[int]time.Duration{}
			for _, pods := range []int{0, 300} {
				w, m := crowded(t, pods)
				took[pods] = fastest(test(t, w, m))
			}
			if took[300] > 4*took[0] {
				t.Errorf("it takes %v with 30,000 Pods elsewhere, %v with none", took[300], took[0])
			}
		})
	}
}
