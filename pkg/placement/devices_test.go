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

const slice = "falldio.com/mig-1g.10gb"

// slicesEach asks for a number of slices: devices that are no cards.
func slicesEach(count int64) placement.Shape {
	return placement.Shape{Others: placement.Amounts{{Resource: slice, Value: count}}}
}

// sliceWorld has two nodes with four slices each, and Pods that hold "node:count" of them.
func sliceWorld(t *testing.T, held ...string) *world {
	t.Helper()
	w := newWorld()
	for _, name := range []string{"a", "b"} {
		w.node(name, 0, 64)
		w.nodes[len(w.nodes)-1].Others = placement.Amounts{{Resource: slice, Value: 4}}
	}
	for i, text := range held {
		var count int64
		node, number, _ := strings.Cut(text, ":")
		if _, err := fmt.Sscan(number, &count); err != nil {
			t.Fatal(err)
		}
		w.run(fmt.Sprintf("p%d", i), node, slicesEach(count))
	}
	return w
}

func gangOfSlices(members int, each int64) *placement.Gang {
	return &placement.Gang{Roles: []placement.Role{{Shape: slicesEach(each), Min: members, Max: members}}}
}

func TestAGangOfSlicesIsPlacedAsAWhole(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		held []string
		gang *placement.Gang
		want string
	}{
		"on two nodes":             {nil, gangOfSlices(2, 3), "a b"},
		"on one node":              {nil, gangOfSlices(2, 2), "a a"},
		"there are too few":        {nil, gangOfSlices(3, 3), ""},
		"enough, but not together": {[]string{"a:2", "b:2"}, gangOfSlices(1, 3), ""},
		"what is left":             {[]string{"a:3", "b:1"}, gangOfSlices(2, 1), "a b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, fits, err := sliceWorld(t, test.held...).cluster(t).Plan(test.gang)
			if err != nil || fits != (test.want != "") {
				t.Fatalf("it fits: %t, %v", fits, err)
			}
			if !fits {
				return
			}
			var nodes []string
			for i := range plan.Members {
				nodes = append(nodes, plan.Members[i].Node)
			}
			slices.Sort(nodes)
			if got := strings.Join(nodes, " "); got != test.want {
				t.Errorf("it is on %s, want %s", got, test.want)
			}
		})
	}
}

func TestPodsWithSlicesArePreempted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		held []string
		gang *placement.Gang
		want string
	}{
		"those on one node suffice":      {[]string{"a:1", "a:1", "a:2", "b:3", "b:1"}, gangOfSlices(1, 3), "p3"},
		"one Pod makes room for several": {[]string{"a:1", "a:1", "a:1", "a:1", "b:4"}, gangOfSlices(3, 1), "p4"},
		"nobody need leave":              {[]string{"a:4"}, gangOfSlices(2, 2), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules := placement.PreemptionRules{Victim: func(*placement.Pod) (int32, bool) { return 0, true }}
			result, found, err := sliceWorld(t, test.held...).cluster(t).Preempt(test.gang, rules)
			if err != nil || !found {
				t.Fatalf("found %t, %v", found, err)
			}
			if got := strings.Join(result.Victims, " "); got != test.want {
				t.Errorf("victims %q, want %q", got, test.want)
			}
		})
	}
}

func TestPodsWithSlicesMoveTogether(t *testing.T) {
	t.Parallel()
	w := sliceWorld(t, "a:2", "b:2")
	result, found, err := w.cluster(t).Consolidate(gangOfSlices(1, 4), w.rules())
	if err != nil || !found {
		t.Fatalf("found %t, %v", found, err)
	}
	if len(result.Moves) != 1 || result.Moves[0].From.Node == result.Moves[0].To.Node {
		t.Errorf("moves %+v, want one to the other node", result.Moves)
	}
}
