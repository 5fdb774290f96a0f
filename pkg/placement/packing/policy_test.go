// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

func TestPricesAreReconsideredLessAndLessOften(t *testing.T) {
	t.Parallel()
	p := New(Default())
	c := clusterOf(t, p, node("a", 64, 8))
	r := c.Request(whole(1, 1))
	var refreshed []int
	for seen := 1; seen <= 5000; seen++ {
		before := p.Epoch()
		p.Learn(c, r)
		if p.Epoch() != before {
			refreshed = append(refreshed, seen)
		}
	}
	if want := []int{16, 32, 64, 128, 256, 512, 1024, 2048, 3072, 4096}; !slices.Equal(refreshed, want) {
		t.Errorf("after %v requests, want %v", refreshed, want)
	}
}

func TestAPriorIsKnownAfterARefresh(t *testing.T) {
	t.Parallel()
	p := New(Default())
	c := clusterOf(t, p, node("a", 96, 8), node("b", 32, 4))
	p.Mix().AddWeight(c.Request(share(6, 81)), 10)
	p.Mix().AddWeight(c.Request(whole(64, 8)), 1)
	p.Mix().AddWeight(c.Request(placement.Shape{CPU: 5000}), 99)
	before := p.Epoch()
	p.Refresh(c)
	l := &p.learned
	if p.Epoch() == before {
		t.Error("prices have not changed")
	}
	if want := (10*6000. + 64000) / (810 + 800); !near(l.cpuPerPercent, want, 1e-9) {
		t.Errorf("CPU per percent %v, want %v", l.cpuPerPercent, want)
	}
	if want := 800. / (810 + 800); !near(l.wholeNodes, want, 1e-9) || l.wholeNodeCPU != 64000 || l.cards != 8 {
		t.Errorf("whole nodes of %d: %v with %d CPU, want %v of 8 with 64000", l.cards, l.wholeNodes, l.wholeNodeCPU, want)
	}
	if l.worth[19] != 0 || l.largestCPU != 96000 {
		t.Errorf("19 percent are worth %v, want 0; the largest CPU is %v, want 96000", l.worth[19], l.largestCPU)
	}
}

func TestWithoutRequestsForGPUsTheDefaultsHold(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]placement.Node{
		"no nodes":          nil,
		"nodes without GPU": {node("a", 64, 0)},
		"a node":            {node("a", 64, 8)},
	} {
		p := New(Default())
		c := clusterOf(t, p, nodes...)
		for range 40 {
			p.Learn(c, c.Request(placement.Shape{CPU: 1000}))
		}
		if p.learned.cpuPerPercent != 110 || p.learned.worth[19] != 0.19 {
			t.Errorf("%s: learned %v CPU per percent, 19 percent are worth %v", name, p.learned.cpuPerPercent, p.learned.worth[19])
		}
		if _, found := c.Find(c.Request(placement.Shape{CPU: 1000}), c.Root()); found != (len(nodes) > 0) {
			t.Errorf("%s: a place is found is %v", name, found)
		}
	}
}

func TestThePriceIsTheSumOfItsTerms(t *testing.T) {
	t.Parallel()
	// Node a has 50 % left of a card, b has all of both.
	tests := map[string]struct {
		parameters Parameters
		shape      placement.Shape
		node       string
		cost       float64
	}{
		"nothing matters: the first name":               {Parameters{}, share(1, 50), "a", 0},
		"shares fill cards":                             {Parameters{ShareFit: 1}, share(1, 50), "a", 0},
		"a share that fills no card":                    {Parameters{ShareFit: 1}, share(1, 60), "b", 0.4},
		"Pods without GPUs go where little CPU is left": {Parameters{CPUFit: 2}, placement.Shape{CPU: 3000}, "a", 2 * 28. / 64},
		"whole GPUs go where the fewest are left":       {Parameters{NodeFit: 1}, whole(1, 1), "b", 1},
		"shares as well, a little":                      {Parameters{NodeFit: 1}, share(1, 20), "a", 0.3 / cardFirst},
		"devices are taken where the fewest are left":   {Parameters{DeviceFit: 1, CPUFit: 1}, devices(1), "b", 1 + 1./devicesFirst},
		"of as many devices, where little CPU is left":  {Parameters{DeviceFit: 1, CPUFit: 1}, devices(2), "a", 2 + 31./64/devicesFirst},
		// Before anything is known, rests are worth their size: a card more or less.
		"what is used of a card is lost": {Parameters{Worth: 3}, share(1, 50), "a", 1.5},
		"a whole one":                    {Parameters{Worth: 3}, whole(1, 2), "b", 6},
		"nothing is lost without GPUs":   {Parameters{Worth: 3}, placement.Shape{CPU: 1}, "a", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.parameters.HalfLife = 1e5
			p := New(test.parameters)
			c := clusterOf(t, p, withDevices(node("a", 32, 1), 4, 4), withDevices(node("b", 64, 2), 2, 4))
			run(t, c, "a", 1, 50, 0)
			p.Refresh(c)
			place, found := c.Find(c.Request(test.shape), c.Root())
			if !found || place.Node != test.node || !near(place.Cost, test.cost, 1e-9) {
				t.Errorf("got node %q at %v, want %q at %v", place.Node, place.Cost, test.node, test.cost)
			}
		})
	}
}

// withDevices adds numbers of two kinds of devices to a node.
func withDevices(n placement.Node, some, others int64) placement.Node {
	n.Others = placement.Amounts{{Resource: "example.com/a", Value: some}, {Resource: "example.com/b", Value: others}}
	return n
}

// devices asks for one of the devices of which node b has fewer, or for two of those of which both
// have as many.
func devices(count int64) placement.Shape {
	resource := map[int64]string{1: "example.com/a", 2: "example.com/b"}[count]
	return placement.Shape{Others: placement.Amounts{{Resource: resource, Value: count}}}
}

func TestSlicesFillOneNodeAfterTheOther(t *testing.T) {
	t.Parallel()
	c := placement.NewCluster(New(Default()))
	for _, n := range []placement.Node{node("a", 64, 0), node("b", 32, 0), node("c", 96, 4)} {
		n.Others = placement.Amounts{{Resource: "falldio.com/mig-1g.10gb", Value: 7}}
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	request := c.Request(placement.Shape{CPU: 4000, Others: placement.Amounts{{Resource: "falldio.com/mig-1g.10gb", Value: 1}}})
	var got []string
	for i := range 15 {
		place, found := c.Find(request, c.Root())
		if !found {
			t.Fatalf("no place for Pod %d", i)
		}
		if err := c.Place(placement.Pod{Name: fmt.Sprint(i), Node: place.Node, Use: place.Use}); err != nil {
			t.Fatal(err)
		}
		got = append(got, place.Node)
	}
	// Node c comes last: its CPU is needed by its whole GPUs.
	if want := append(slices.Repeat([]string{"b"}, 7), append(slices.Repeat([]string{"a"}, 7), "c")...); !slices.Equal(got, want) {
		t.Errorf("the Pods go to %v, want %v", got, want)
	}
}

func TestPricesFollowWhatIsLearned(t *testing.T) {
	t.Parallel()
	p := New(Parameters{Worth: 1, HalfLife: 1e5})
	c := clusterOf(t, p, node("a", 64, 1))
	r := c.Request(share(1, 81))
	for seen := 1; seen <= 40; seen++ {
		want := 1.0 // the rest is worthless if there are only requests for such shares
		if seen < firstRefresh {
			want = 0.81
		}
		p.Learn(c, r)
		if place, _ := c.Find(r, c.Root()); !near(place.Cost, want, 1e-9) {
			t.Fatalf("after %d requests a share costs %v, want %v", seen, place.Cost, want)
		}
	}
}

func TestScarceModelsAreLeftToRequestsThatNeedThem(t *testing.T) {
	t.Parallel()
	p := New(Parameters{Scarcity: 1, HalfLife: 1e5})
	rare := node("a", 64, 2)
	rare.Model = "rare"
	c := clusterOf(t, p, rare, node("b", 64, 2))
	demanding := whole(1, 1)
	demanding.Models = []string{"rare"}
	for range 16 {
		p.Learn(c, c.Request(demanding))
		p.Learn(c, c.Request(whole(1, 1)))
	}
	for shape, want := range map[*placement.Shape]string{new(whole(1, 1)): "b", &demanding: "a"} {
		if place, _ := c.Find(c.Request(*shape), c.Root()); place.Node != want {
			t.Errorf("%s goes to %s, want %s", shape, place.Node, want)
		}
	}
}

// replay places and removes Pods and returns where they went. The nodes are added in some
// order.
func replay(t *testing.T, seed uint64, order []int) []string {
	t.Helper()
	p := New(Default())
	c := clusterOf(t, p)
	for _, i := range order {
		n := node(fmt.Sprintf("n%02d", i), 32+32*(i%3), 2<<(i%3))
		n.Model = []string{"a", "b"}[i%2]
		if err := c.SetNode(n); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 9))
	shapes := []placement.Shape{whole(4, 1), whole(8, 2), whole(32, 8), share(2, 46), share(3, 81), share(1, 19), {CPU: 2000}, whole(16, 4)}
	shapes[1].Models = []string{"b"}
	var log []string
	for i := range 600 {
		r := c.Request(shapes[random.IntN(len(shapes))])
		p.Learn(c, r)
		place, found := c.Find(r, c.Root())
		log = append(log, fmt.Sprint(place, found))
		if found {
			if err := c.Place(placement.Pod{Name: fmt.Sprint(i), Node: place.Node, Use: place.Use}); err != nil {
				t.Fatal(err)
			}
		}
		c.Remove(fmt.Sprint(i - 5 - random.IntN(60)))
	}
	return log
}

func TestTheSameArrivalsGoToTheSamePlaces(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		order := make([]int, 18)
		for i := range order {
			order[i] = i
		}
		want := replay(t, seed, order)
		for range 2 {
			rand.New(rand.NewPCG(seed, 3)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			for i, got := range replay(t, seed, order) {
				if got != want[i] {
					t.Fatalf("seed %d: Pod %d goes to %s and to %s", seed, i, want[i], got)
				}
			}
		}
	}
}
