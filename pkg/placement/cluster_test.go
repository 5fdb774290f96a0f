// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestInvalidPodsAreRejected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  placement.Pod
		want string
	}{
		"on a node that is not there":     {placement.Pod{Name: "q", Node: "x"}, `there is no node "x"`},
		"that is there already":           {placement.Pod{Name: "p", Node: "b"}, "Pod p is placed already, on node a"},
		"with a GPU that no node has":     {placement.Pod{Name: "q", Node: "b", Use: use(100, 0, placement.MaxCards)}, "GPUs: must be from 0 to 1023, each once, are [0 1024]"},
		"with a GPU of a negative number": {placement.Pod{Name: "q", Node: "b", Use: use(100, -1)}, "are [-1]"},
		"with a GPU twice":                {placement.Pod{Name: "q", Node: "b", Use: use(50, 1, 1)}, "each once"},
		"with nothing of a GPU":           {placement.Pod{Name: "q", Node: "b", Use: use(0, 1)}, "percent: must be 1 to 100, is 0"},
		"with more than all of a GPU":     {placement.Pod{Name: "q", Node: "b", Use: use(101, 1)}, "percent: must be 1 to 100, is 101"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clusterOf(t, aNode("a", 2), aNode("b", 2))
			run(t, c, "p", "a", use(100, 0))
			before := c.StateOf("b")
			err := c.Place(test.pod)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			if c.StateOf("b") != before {
				t.Error("the node has changed")
			}
		})
	}
}

func TestARemovedPodGivesBackWhatItHeld(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 2))
	empty := c.StateOf("a")
	run(t, c, "p", "a", use(30, 1))
	one := c.StateOf("a")
	run(t, c, "q", "a", use(100, 0))
	c.Remove("q")
	if c.StateOf("a") != one {
		t.Error("not as before the second Pod")
	}
	c.Remove("nobody")
	c.Remove("p")
	c.Remove("p")
	if c.StateOf("a") != empty {
		t.Error("not as before the first Pod")
	}
	run(t, c, "p", "a", use(30, 1)) // its name is free again
}

// A scheduler that restarts sees the node first, and then the Pod that holds a GPU which
// the node has lost.
func TestAPodOnALostGPUCountsInWhicheverOrderTheyAreSeen(t *testing.T) {
	t.Parallel()
	lost := placement.Pod{Name: "p", Node: "n", Use: placement.Use{CPU: 5000, GPUs: []int{1, 2}, Percent: placement.Card}}
	first := clusterOf(t, aNode("n", 3))
	if err := first.Place(lost); err != nil {
		t.Fatal(err)
	}
	set(t, first, aNode("n", 2))
	second := clusterOf(t, aNode("n", 2))
	if err := second.Place(lost); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*placement.Cluster{"the Pod": first, "the node": second} {
		if s := c.StateOf("n"); s.CPU() != 59000 || s.Percent() != placement.Card {
			t.Errorf("if %s came first, %d CPU and %d percent are free", name, s.CPU(), s.Percent())
		}
	}
}

func TestAPlacedPodIsTheClustersOwn(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 2))
	empty := c.StateOf("a")
	gpus := []int{0}
	run(t, c, "p", "a", use(100, gpus...))
	gpus[0] = 1
	c.Remove("p")
	if c.StateOf("a") != empty {
		t.Errorf("%v is free", c.StateOf("a").Free())
	}
}

func TestNothingIsFreeOfACardThatWasGivenAwayAThousandTimes(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 1))
	for i := range 1000 {
		run(t, c, fmt.Sprint(i), "a", use(100, 0))
	}
	if free := c.StateOf("a").Free(); free[0] != 0 {
		t.Errorf("%v is free", free)
	}
}

func TestAChangedNodeKeepsItsPods(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(*placement.Node)
		percent int // that is free afterwards
		cpu     int64
	}{
		"with nothing changed":  {func(*placement.Node) {}, 270, 62000},
		"with more CPU":         {func(n *placement.Node) { n.CPU += 1000 }, 270, 63000},
		"with less CPU than it": {func(n *placement.Node) { n.CPU = 0 }, 270, -2000},
		"with another GPU":      {func(n *placement.Node) { n.GPUs = append(n.GPUs, placement.GPU{}) }, 370, 62000},
		"without a free GPU":    {func(n *placement.Node) { n.GPUs = n.GPUs[:3] }, 170, 62000},
		"without its GPU":       {func(n *placement.Node) { n.GPUs = n.GPUs[:2] }, 100, 62000},
		"without any GPU":       {func(n *placement.Node) { n.GPUs = nil }, 0, 62000},
		"with a broken GPU":     {func(n *placement.Node) { n.GPUs[0].Broken = true }, 170, 62000},
		"with its GPU broken":   {func(n *placement.Node) { n.GPUs[2].Broken = true }, 200, 62000},
		"in other groups":       {func(n *placement.Node) { n.GPUs[2].Group, n.GPUs[3].Group = 1, 1 }, 270, 62000},
		"in another domain":     {func(n *placement.Node) { n.Domains = []string{"y", "r"} }, 270, 62000},
		"in no domain":          {func(n *placement.Node) { n.Domains = nil }, 270, 62000},
		"of another model":      {func(n *placement.Node) { n.Model = "l40s" }, 270, 62000},
		"closed":                {func(n *placement.Node) { n.Closed = true }, 270, 62000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			original := aNode("n", 4).in("z")
			c := clusterOf(t, original)
			empty := c.StateOf("n")
			run(t, c, "p", "n", use(100, 1))
			run(t, c, "q", "n", use(30, 2))
			before := c.StateOf("n")
			changed := original.but(test.change)
			set(t, c, changed)
			if s := c.StateOf("n"); s.Percent() != test.percent || s.CPU() != test.cpu || s.Cards() != len(changed.GPUs) {
				t.Errorf("%d percent, %d CPU of %d cards are free, want %d and %d of %d", s.Percent(), s.CPU(), s.Cards(), test.percent, test.cpu, len(changed.GPUs))
			}
			set(t, c, original)
			if c.StateOf("n") != before {
				t.Error("not as before when it was changed back")
			}
			set(t, c, changed)
			c.Remove("q") // whose GPU may be gone
			c.Remove("p")
			set(t, c, original)
			if c.StateOf("n") != empty {
				t.Error("not empty when its Pods were removed")
			}
		})
	}
}

func TestANodeThatMovesLeavesItsDomain(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 2).in("z", "r"), aNode("b", 2).in("z", "s"))
	r := c.Request(whole(1))
	room := func(domain string) int { return domainOf(t, c, domain).Room(r) }
	if c.Root().Room(r) != 4 || room("z") != 4 || room("z/r") != 2 {
		t.Fatal("the room is wrong to begin with")
	}
	set(t, c, aNode("a", 2).in("z", "s"))
	if c.Root().Room(r) != 4 || room("z") != 4 || room("z/s") != 4 {
		t.Error("the room is wrong after it moved")
	}
	if _, _, err := c.Plan(&placement.Gang{Within: "z/r", Roles: []placement.Role{{Shape: whole(1), Min: 1, Max: 1}}}); err == nil {
		t.Error("the domain that it left last is still there")
	}
	c.RemoveNode("a")
	if c.Root().Room(r) != 2 || room("z/s") != 2 {
		t.Error("the room is wrong after it was removed")
	}
	c.RemoveNode("b")
	if c.Root().Room(r) != 0 || len(c.Root().Children) != 0 {
		t.Error("there are domains without nodes")
	}
}

func TestARemovedNodeTakesItsPodsAlong(t *testing.T) {
	t.Parallel()
	c := clusterOf(t, aNode("a", 2), aNode("b", 2))
	empty := c.StateOf("a")
	run(t, c, "p", "a", use(100, 0))
	c.RemoveNode("a")
	c.RemoveNode("a")
	c.RemoveNode("nobody")
	run(t, c, "p", "b", use(100, 0)) // its name is free
	set(t, c, aNode("a", 2))
	if c.StateOf("a") != empty {
		t.Error("the node came back with its Pods")
	}
}

func TestAClosedNodeKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	node := aNode("a", 2)
	closed := node.but(func(n *placement.Node) { n.Closed = true })
	c := clusterOf(t, closed)
	if _, found := c.Find(c.Request(shapeOf{}), c.Root()); found {
		t.Error("a closed node takes a Pod")
	}
	run(t, c, "p", "a", use(100, 0)) // as can happen in a real cluster
	set(t, c, node)
	if got := c.StateOf("a").Percent(); got != 100 {
		t.Errorf("%d percent are free, want 100", got)
	}
}

func TestATieGoesToTheSmallestName(t *testing.T) {
	t.Parallel()
	// All but one differ in what the policy ignores.
	c := clusterOf(t, aNode("d", 2), aNode("c", 2).groups(0, 0), aNode("e", 2).groups(0, 0), aNode("b", 2).size(50000, 50000, 9), aNode("a", 3))
	for _, want := range []string{"b", "c", "d", "e", "a"} {
		got := find(t, c, whole(1))
		if got.Node != want {
			t.Fatalf("got node %s, want %s", got.Node, want)
		}
		run(t, c, want, want, use(100, 0, 1))
	}
}

// TestTheFirstOfManyNodesIsTaken takes and gives back nodes in every order.
func TestTheFirstOfManyNodesIsTaken(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		d, c := seeded(seed), clusterOf(t)
		var names []string
		for i := range 60 {
			names = append(names, fmt.Sprintf("n%02d", i))
			set(t, c, aNode(names[i], 1).in(pick(d, "x", "y")))
		}
		taken := map[string]bool{}
		front := d.IntN(3) // how often the first one is taken instead of any
		for range 400 {
			name := names[d.IntN(len(names))]
			if free := free(names, taken); len(free) > 0 && d.IntN(3) < front {
				name = free[0]
			}
			if taken[name] {
				c.Remove(name)
			} else {
				run(t, c, name, name, use(100, 0))
			}
			taken[name] = !taken[name]
			place, found := c.Find(c.Request(whole(1)), c.Root())
			left := free(names, taken)
			if found != (len(left) > 0) || found && place.Node != left[0] {
				t.Fatalf("seed %d: got node %q, want the first of %v", seed, place.Node, left)
			}
			if got := c.Root().Room(c.Request(whole(1))); got != len(left) {
				t.Fatalf("seed %d: there is room for %d, want %d", seed, got, len(left))
			}
		}
	}
}

func free(names []string, taken map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return taken[name] })
}
