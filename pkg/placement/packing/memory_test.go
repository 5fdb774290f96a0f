// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// A policy that is restored from a memory, over JSON, decides and learns on as the original.
func TestAPolicyThatRecallsDecidesAlike(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 5))
	nodes := make([]placement.Node, 20)
	for i := range nodes {
		nodes[i] = placement.Node{
			Name: fmt.Sprintf("n%02d", i), CPU: 64000, Memory: 1<<19 + int64(dice.IntN(5000)), Slots: 100, Model: []string{"a", "b", "c"}[i%3], GPUs: make([]placement.GPU, 4+4*(i%2)),
		}
	}
	build := func(policy *Policy) *placement.Cluster {
		cluster := placement.NewCluster(policy)
		for i := range nodes {
			if err := cluster.SetNode(nodes[i]); err != nil {
				t.Fatal(err)
			}
		}
		return cluster
	}
	shape := func() placement.Shape { return randomShape(dice) }
	first := New(Default())
	one := build(first)
	for range 300 {
		first.LearnEnding(one, one.Request(shape()))
	}
	text, err := json.Marshal(first.Memory())
	if err != nil {
		t.Fatal(err)
	}
	memory := &Memory{}
	if err := json.Unmarshal(text, memory); err != nil {
		t.Fatal(err)
	}
	second := New(Default())
	two := build(second)
	if err := second.Recall(two, memory); err != nil {
		t.Fatal(err)
	}
	for i := range 400 {
		s := shape()
		first.Learn(one, one.Request(s))
		second.Learn(two, two.Request(s))
		a, found := one.Find(one.Request(s), one.Root())
		b, same := two.Find(two.Request(s), two.Root())
		if found != same || a.Node != b.Node || a.Cost != b.Cost {
			t.Fatalf("step %d: %+v, want %+v", i, b, a)
		}
		if found {
			remember(t, i, &a, one, two)
		}
	}
}

func randomShape(dice *rand.Rand) placement.Shape {
	s := placement.Shape{CPU: int64(1000 * (1 + dice.IntN(8)))}
	if dice.IntN(2) == 0 {
		s.Share = 10 + 10*dice.IntN(8)
	} else {
		s.GPUs = 1 + dice.IntN(8)
	}
	if dice.IntN(3) == 0 {
		s.Models = []string{"a"}
	}
	return s
}

// remember fills clusters alike.
func remember(t *testing.T, step int, place *placement.Place, clusters ...*placement.Cluster) {
	t.Helper()
	for _, cluster := range clusters {
		if err := cluster.Place(placement.Pod{Name: fmt.Sprint(step), Node: place.Node, Use: place.Use}); err != nil {
			t.Fatal(err)
		}
		if step >= 30 {
			cluster.Remove(fmt.Sprint(step - 30))
		}
	}
}

func TestAMemoryThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Memory)
		want   string
	}{
		"no worth":                   {func(m *Memory) { m.Worth = nil }, "worth: must have 101 numbers, has 0"},
		"a mix of unknown shapes":    {func(m *Memory) { m.Mix = []Remembered{{Shape: 3}} }, "mix: there is no shape 3, there are 0"},
		"a future of unknown shapes": {func(m *Memory) { m.Futures = [][]int{{-1}} }, "futures: there is no shape -1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := New(Default())
			memory := policy.Memory()
			test.change(memory)
			if err := policy.Recall(placement.NewCluster(policy), memory); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
