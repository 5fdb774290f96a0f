// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// tried returns a cluster of one node with four GPUs and Pods "a" and "b" on the first
// two.
func tried(t *testing.T) *placement.Cluster {
	t.Helper()
	c := clusterOf(t, aNode("n", 4))
	run(t, c, "a", "n", use(100, 0))
	run(t, c, "b", "n", use(40, 1))
	return c
}

// here returns which of the Pods a to f are in the cluster.
func here(t *testing.T, c *placement.Cluster) string {
	t.Helper()
	var names []byte
	for _, name := range []byte("abcdef") {
		if err := c.Place(placement.Pod{Name: string(name), Node: "n"}); err != nil {
			names = append(names, name)
		} else {
			c.Remove(string(name))
		}
	}
	return string(names)
}

// actor places Pods.
type actor struct {
	*placement.Cluster
	t *testing.T
}

func (a actor) place(name string, percent int, gpus ...int) {
	a.t.Helper()
	run(a.t, a.Cluster, name, "n", use(percent, gpus...))
}

func TestATrialIsUndoneUnlessItIsKept(t *testing.T) {
	t.Parallel()
	keep, undo := true, false
	tests := map[string]struct {
		trial func(c actor)
		want  string // the Pods that are there
		free  []int8
	}{
		"nothing happened": {
			func(c actor) { c.Try(func() bool { return undo }) }, "ab", []int8{0, 60, 100, 100}},
		"a Pod came": {
			func(c actor) {
				c.Try(func() bool { c.place("c", 30, 1); return undo })
			}, "ab", []int8{0, 60, 100, 100}},
		"a Pod came and stays": {
			func(c actor) {
				c.Try(func() bool { c.place("c", 30, 1); return keep })
			}, "abc", []int8{0, 30, 100, 100}},
		"a Pod went": {
			func(c actor) { c.Try(func() bool { c.Remove("a"); return undo }) },
			"ab", []int8{0, 60, 100, 100}},
		"a Pod moved": {
			func(c actor) {
				c.Try(func() bool { c.Remove("b"); c.place("b", 70, 3); return undo })
			}, "ab", []int8{0, 60, 100, 100}},
		"a Pod came and went": {
			func(c actor) {
				c.Try(func() bool { c.place("c", 30, 1); c.Remove("c"); return undo })
			}, "ab", []int8{0, 60, 100, 100}},
		"what was refused leaves nothing to undo": {
			func(c actor) {
				c.Try(func() bool { return c.Place(placement.Pod{Name: "a", Node: "n"}) == nil })
			}, "ab", []int8{0, 60, 100, 100}},
		"only the inner trial is undone": {
			func(c actor) {
				c.Try(func() bool {
					c.place("c", 100, 2)
					c.Try(func() bool { c.Remove("c"); c.place("d", 10, 2); return undo })
					return keep
				})
			}, "abc", []int8{0, 0, 60, 100}},
		"what the inner trial kept is undone with the outer": {
			func(c actor) {
				c.Try(func() bool {
					c.place("c", 100, 2)
					c.Try(func() bool { c.Remove("a"); c.place("d", 10, 3); return keep })
					c.Remove("b")
					return undo
				})
			}, "ab", []int8{0, 60, 100, 100}},
		"both are kept": {
			func(c actor) {
				c.Try(func() bool {
					c.Try(func() bool { c.Remove("a"); return keep })
					c.Try(func() bool { c.Remove("b"); return undo })
					c.place("c", 20, 1)
					return keep
				})
			}, "bc", []int8{40, 100, 100, 100}},
		"what came before the trial is not undone": {
			func(c actor) {
				c.Remove("a")
				c.Try(func() bool { c.place("a", 100, 3); return keep })
				c.Try(func() bool { c.Remove("a"); return undo })
			}, "ab", []int8{0, 60, 100, 100}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tried(t)
			test.trial(actor{c, t})
			if got := c.StateOf("n").Free(); !slices.Equal(got, test.free) {
				t.Errorf("free are %v, want %v", got, test.free)
			}
			if got := here(t, c); got != test.want {
				t.Errorf("Pods %s are there, want %s", got, test.want)
			}
		})
	}
}

func TestAPodIsTheSameAfterATrial(t *testing.T) {
	t.Parallel()
	c := tried(t)
	before := c.StateOf("n")
	c.Try(func() bool {
		c.Remove("b")
		run(t, c, "b", "n", use(100, 2, 3))
		return false
	})
	c.Remove("b") // gives back what it held before the trial
	run(t, c, "b", "n", use(40, 1))
	if c.StateOf("n") != before {
		t.Errorf("free are %v", c.StateOf("n").Free())
	}
}
