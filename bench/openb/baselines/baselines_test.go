// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"math"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// largest is a node like the largest of the published cluster.
func largest(name string) placement.Node {
	return placement.Node{Name: name, CPU: 128_000, Memory: 1 << 20, Slots: 100, Model: "A10", GPUs: make([]placement.GPU, 8)}
}

// small is a node with two cards.
func small(name string) placement.Node {
	return placement.Node{Name: name, CPU: 10_000, Memory: 1 << 20, Slots: 100, Model: "T4", GPUs: make([]placement.GPU, 2)}
}

func clusterOf(t *testing.T, policy placement.Policy, nodes ...placement.Node) *placement.Cluster {
	t.Helper()
	cluster := placement.NewCluster(policy)
	for _, node := range nodes {
		if err := cluster.SetNode(node); err != nil {
			t.Fatal(err)
		}
	}
	return cluster
}

// find returns where a shape goes.
func find(t *testing.T, cluster *placement.Cluster, shape placement.Shape) placement.Place {
	t.Helper()
	place, found := cluster.Find(cluster.Request(shape), cluster.Root())
	if !found {
		t.Fatalf("%v fits nowhere", &shape)
	}
	return place
}

// near compares costs, which are rounded.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestScoresComputedByHand(t *testing.T) {
	half := placement.Shape{CPU: 64_000, GPUs: 4}
	// The target: half of the Pods take 50 % of a card, the others two cards.
	target := []placement.Shape{{CPU: 1000, Share: 50}, {CPU: 1000, GPUs: 2}}
	for name, test := range map[string]struct {
		score Score
		node  placement.Node
		shape placement.Shape
		want  float64
	}{
		"BestFit: half of the node is left, of CPU and GPUs": {BestFit{}, largest("n"), half, 50},
		"BestFit: CPU alone counts half":                     {BestFit{}, largest("n"), placement.Shape{CPU: 128_000}, 50},
		"DotProd: ½·1 + ½·1, divided by 2, from 1":           {DotProd{}, largest("n"), half, 50},
		"DotProd: a quarter of the GPUs, of a quarter node":  {DotProd{}, small("n"), placement.Shape{GPUs: 2}, 96},
		// 30 % on a card leave 170 % that are useless for the second shape:
		// 100/(1+e^0.85).
		"FGD: a share breaks a pair of cards": {NewFGD(target), small("n"), placement.Shape{CPU: 1000, Share: 30}, 29},
		// After 60 % the first shape can't use 40 %, the second 140 %: 100/(1+e^0.9).
		"FGD: a rest that is too small counts as well": {NewFGD(target), small("n"), placement.Shape{CPU: 1000, Share: 60}, 28},
		// Nothing is left, nothing was useless: 100/(1+e^0).
		"FGD: a pair fits": {NewFGD(target), small("n"), placement.Shape{CPU: 1000, GPUs: 2}, 50},
		// Without CPU all 200 % are useless: 100/(1+e^2).
		"FGD: CPU alone strands GPUs": {NewFGD(target), small("n"), placement.Shape{CPU: 9_500}, 11},
	} {
		t.Run(name, func(t *testing.T) {
			place := find(t, clusterOf(t, ByName(test.score), test.node), test.shape)
			if !near(-place.Cost, test.want) {
				t.Errorf("the score is %g, want %g", -place.Cost, test.want)
			}
		})
	}
}

// With 30 % of one card taken, 50 % more leave either 20 % and a card, or 70 % and
// 50 %. Of 170 % the second shape can't use any before and after; the first can't
// use the 20 %.
func TestFGDPutsAShareOnTheCardThatLeavesLessWaste(t *testing.T) {
	policy := ByName(NewFGD([]placement.Shape{{CPU: 1000, Share: 50}, {CPU: 1000, GPUs: 2}}))
	cluster := clusterOf(t, policy, small("n"))
	if err := cluster.Place(placement.Pod{Name: "p", Node: "n", Use: placement.Use{GPUs: []int{0}, Percent: 30}}); err != nil {
		t.Fatal(err)
	}
	if place := find(t, cluster, placement.Shape{CPU: 1000, Share: 50}); !slices.Equal(place.GPUs, []int{1}) || !near(-place.Cost, 56) {
		t.Errorf("GPUs %v with score %g, want GPU 1 with 56", place.GPUs, -place.Cost)
	}
}

func TestOtherModelsAreUseless(t *testing.T) {
	f := NewFGD([]placement.Shape{{CPU: 1000, Share: 50, Models: []string{"A10", "A100"}}})
	// All 200 % are useless before and after, except what is taken.
	place := find(t, clusterOf(t, ByName(f), small("n")), placement.Shape{Share: 30})
	if !near(-place.Cost, 57) { // 100/(1+e^-0.3)
		t.Errorf("the score is %g, want 57", -place.Cost)
	}
}

func TestBestFitPutsAShareOnTheFullestCard(t *testing.T) {
	cluster := clusterOf(t, ByName(BestFit{}), small("n"))
	if err := cluster.Place(placement.Pod{Name: "p", Node: "n", Use: placement.Use{GPUs: []int{1}, Percent: 30}}); err != nil {
		t.Fatal(err)
	}
	if place := find(t, cluster, placement.Shape{Share: 50}); !slices.Equal(place.GPUs, []int{1}) {
		t.Errorf("GPUs %v, want GPU 1", place.GPUs)
	}
}

func TestTheTargetCoversNineteenOfTwentyPods(t *testing.T) {
	w := newWorkload()
	add := func(count int, shape placement.Shape) {
		for range count {
			w.add(&shape)
		}
	}
	add(90, placement.Shape{CPU: 1000, Share: 50, Memory: 1})
	add(5, placement.Shape{CPU: 1000})
	add(5, placement.Shape{CPU: 2000, GPUs: 2})
	got := w.target()
	want := []typical{
		{cpu: 1000, share: 50, gpus: 1, part: 90. / 95},
		{cpu: 2000, share: 100, gpus: 2, part: 5. / 95}, // of equally popular ones the larger
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestALearningFGDDerivesItsTargetLessAndLessOften(t *testing.T) {
	f := NewLearningFGD()
	policy := ByName(f)
	cluster := clusterOf(t, policy, small("n"))
	var at []int
	for n := 1; n <= 4096; n++ {
		before := f.Epoch()
		policy.Learn(cluster, cluster.Request(placement.Shape{Share: 50}))
		if f.Epoch() != before {
			at = append(at, n)
		}
	}
	if want := []int{16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096}; !slices.Equal(at, want) {
		t.Errorf("derived after %v arrivals, want %v", at, want)
	}
}

func TestTiesByNameGoToTheSmallest(t *testing.T) {
	cluster := clusterOf(t, ByName(DotProd{}), small("b"), small("a"), small("c"))
	if place := find(t, cluster, placement.Shape{GPUs: 1}); place.Node != "a" {
		t.Errorf("on node %s, want a", place.Node)
	}
}

// Of three equally good nodes two are in the same State: the third one gets a third of
// the Pods nevertheless.
func TestEachNodeHasTheSameChance(t *testing.T) {
	for name, policy := range map[string]placement.Policy{"ties by lot": ByLot(DotProd{}, 1), "Random": NewRandom(1)} {
		t.Run(name, func(t *testing.T) {
			different := small("c")
			different.Memory++ // makes no difference to scores
			cluster := clusterOf(t, policy, small("a"), small("b"), different)
			count := 0
			for range 3000 {
				if find(t, cluster, placement.Shape{GPUs: 1}).Node == "c" {
					count++
				}
			}
			if count < 900 || count > 1100 {
				t.Errorf("the third node gets %d of 3000, want about 1000", count)
			}
		})
	}
}

func TestRandomUsesEveryCard(t *testing.T) {
	seen := map[int]bool{}
	for seed := range int64(50) {
		cluster := clusterOf(t, NewRandom(seed), small("n"))
		if err := cluster.Place(placement.Pod{Name: "p", Node: "n", Use: placement.Use{GPUs: []int{0}, Percent: 30}}); err != nil {
			t.Fatal(err)
		}
		seen[find(t, cluster, placement.Shape{Share: 50}).GPUs[0]] = true
	}
	if len(seen) != 2 {
		t.Errorf("only cards %v are used", seen)
	}
}
