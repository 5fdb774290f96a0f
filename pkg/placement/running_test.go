// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestAPodThatRunsIsKnownWithItsCards(t *testing.T) {
	w := newWorld()
	w.node("a", 4, 100)
	w.run("x", "a", gpusEach(2), 1, 3)
	c := w.cluster(t)
	pod, runs := c.Running("x")
	if !runs || pod.Node != "a" || !slices.Equal(pod.GPUs, []int{1, 3}) {
		t.Errorf("got %+v, runs %v", pod, runs)
	}
	pod.GPUs[0] = 0 // the caller's own copy
	if again, _ := c.Running("x"); again.GPUs[0] != 1 {
		t.Error("the caller can change what the cluster knows")
	}
	looked := c.Look("x")
	if c.Remove("x"); c.Look("x") != nil || looked.Name != "x" || looked.GPUs[0] != 1 {
		t.Errorf("a Pod that was removed has become %+v", looked)
	}
	if _, runs := c.Running("y"); runs {
		t.Error("a Pod that nobody placed runs")
	}
}

func TestANodeHasJustTheCardsThatAreFree(t *testing.T) {
	w := newWorld()
	w.node("a", 2, 100)
	w.run("x", "a", placement.Shape{Share: 40}, 0)
	c := w.cluster(t)
	for name, tc := range map[string]struct {
		node string
		use  placement.Use
		want bool
	}{
		"the other card":          {"a", placement.Use{GPUs: []int{1}, Percent: placement.Card}, true},
		"the rest of the first":   {"a", placement.Use{GPUs: []int{0}, Percent: 60}, true},
		"more than is left of it": {"a", placement.Use{GPUs: []int{0}, Percent: 61}, false},
		"a card that is not":      {"a", placement.Use{GPUs: []int{2}, Percent: 1}, false},
		"a node that is not":      {"b", placement.Use{}, false},
	} {
		if got := c.Has(tc.node, &tc.use); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
