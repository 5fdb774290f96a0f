// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// node returns a node with plenty of everything but GPUs.
func node(model string, gpus int) placement.Node {
	return placement.Node{Name: model, CPU: 100_000, Memory: 1 << 20, Slots: 100, Model: model, GPUs: make([]placement.GPU, gpus)}
}

// times repeats a shape.
func times(count int, shape placement.Shape) []placement.Shape {
	return slices.Repeat([]placement.Shape{shape}, count)
}

func near(got, want float64) bool { return math.Abs(got-want) < 1e-3 }

func TestBoundsFoundByHand(t *testing.T) {
	poor := node("T4", 2)
	poor.CPU = 1000
	small := node("T4", 1)
	for name, test := range map[string]struct {
		nodes []placement.Node
		pods  []placement.Shape
		want  float64
	}{
		"shares that do not share a card":     {[]placement.Node{small}, times(3, placement.Shape{Share: 60}), 0.6},
		"shares that fill cards":              {[]placement.Node{node("T4", 2)}, slices.Concat(times(5, placement.Shape{Share: 60}), times(5, placement.Shape{Share: 40})), 2},
		"few Pods":                            {[]placement.Node{node("T4", 8)}, times(3, placement.Shape{Share: 60}), 1.8},
		"shares that rather use two cards":    {[]placement.Node{node("T4", 2)}, slices.Concat(times(2, placement.Shape{Share: 70}), times(9, placement.Shape{Share: 45})), 1.8},
		"CPU for one Pod only":                {[]placement.Node{poor}, times(2, placement.Shape{CPU: 1000, GPUs: 1}), 1},
		"memory for one Pod only":             {[]placement.Node{node("T4", 2)}, times(2, placement.Shape{Memory: 1 << 20, GPUs: 1}), 1},
		"one node has the model":              {[]placement.Node{small, node("A10", 1)}, times(2, placement.Shape{GPUs: 1, Models: []string{"A10"}}), 1},
		"no node has so many GPUs":            {[]placement.Node{node("T4", 2), node("T4", 2)}, times(2, placement.Shape{GPUs: 4}), 0},
		"Pods without GPUs are refused":       {[]placement.Node{poor}, append(times(1, placement.Shape{CPU: 1000}), placement.Shape{CPU: 1000, GPUs: 2}), 2},
		"who needs a rare model comes before": {[]placement.Node{small, node("A10", 1)}, []placement.Shape{{Share: 90}, {Share: 90}, {GPUs: 1, Models: []string{"A10"}}}, 1.9},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Refusing(test.nodes, test.pods)
			if err != nil || !near(got, test.want) {
				t.Errorf("got %g, %v, want %g", got, err, test.want)
			}
		})
	}
}

// The share arrives first and fits, so the whole GPU is no longer available.
func TestTheBoundIsLowerIfAllThatFitsIsAccepted(t *testing.T) {
	nodes := []placement.Node{node("T4", 1)}
	pods := []placement.Shape{{Share: 60}, {GPUs: 1}, {Share: 40}}
	got, first, err := Accepting(nodes, pods)
	if err != nil || !near(got, 1) || first != 1 {
		t.Errorf("accepting all: got %g and the first %d, %v; want 1 and the first 1", got, first, err)
	}
	got, first, err = Accepting(nodes, pods[:2])
	if err != nil || !near(got, 0.6) || first != 1 {
		t.Errorf("accepting all of two: got %g and the first %d, %v; want 0.6 and the first 1", got, first, err)
	}
	if got, err = Refusing(nodes, pods[:2]); err != nil || !near(got, 1) {
		t.Errorf("refusing: got %g, %v; want 1", got, err)
	}
}

func TestWhatAllFitsIsTheBound(t *testing.T) {
	got, first, err := Accepting([]placement.Node{node("T4", 4)}, slices.Concat(times(2, placement.Shape{Share: 50}), times(1, placement.Shape{CPU: 1000})))
	if err != nil || !near(got, 1) || first != 3 {
		t.Errorf("got %g and the first %d, %v; want 1 and all 3", got, first, err)
	}
}

func TestFirstFitDoesNotExceedTheBound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for trial := range 20 {
		t.Run(fmt.Sprint("trial ", trial), func(t *testing.T) {
			nodes := []placement.Node{node("T4", 2), node("A10", 2), node("T4", 1)}
			nodes[0].CPU = 4000
			var pods []placement.Shape
			for range 12 {
				shape := placement.Shape{CPU: 1000 * random.Int64N(3), Share: 5 + random.IntN(90)}
				if random.IntN(4) == 0 {
					shape = placement.Shape{CPU: 1000, GPUs: 1 + random.IntN(2)}
				}
				if random.IntN(3) == 0 {
					shape.Models = []string{"A10"}
				}
				pods = append(pods, shape)
			}
			bound, err := Refusing(nodes, pods)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
				if got := firstFit(t, nodes, pods); got > bound+1e-6 {
					t.Errorf("%g GPUs are allocated, the bound is %g", got, bound)
				}
			}
		})
	}
}

// firstFit places Pods on the first node that has room, and returns the GPUs that they
// get.
func firstFit(t *testing.T, nodes []placement.Node, pods []placement.Shape) float64 {
	t.Helper()
	cluster := placement.NewCluster(first{})
	for i, n := range nodes {
		n.Name = fmt.Sprint(i)
		if err := cluster.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	percent := 0
	for i := range pods {
		r := cluster.Request(pods[i])
		place, found := cluster.Find(r, cluster.Root())
		if !found {
			continue
		}
		if err := cluster.Place(placement.Pod{Name: fmt.Sprint(i), Node: place.Node, Use: place.Use}); err != nil {
			t.Fatal(err)
		}
		percent += r.Percent()
	}
	return float64(percent) / placement.Card
}

// first considers all places equally good.
type first struct{}

func (first) Begin(*placement.Cluster, *placement.Request)           {}
func (first) Epoch() uint64                                          { return 0 }
func (first) Price(placement.Step) float64                           { return 0 }
func (first) Surcharge(*placement.Request, *placement.State) float64 { return 0 }
