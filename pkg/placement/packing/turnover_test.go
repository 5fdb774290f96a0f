// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// demanding returns a policy that has learned a mix of Pods, all of which are expected to end or
// none, in a cluster of some nodes.
func demanding(t *testing.T, parameters Parameters, ending bool, shapes []placement.Shape, nodes ...placement.Node) (*Policy, *placement.Cluster) {
	t.Helper()
	parameters.HalfLife = 0 // nothing decays
	p := New(parameters)
	c := clusterOf(t, p, nodes...)
	for _, shape := range shapes {
		if ending {
			p.LearnEnding(c, c.Request(shape))
		} else {
			p.Learn(c, c.Request(shape))
		}
	}
	p.Refresh(c)
	return p, c
}

func TestSmallPodsFillTheFullestNodesWherePodsEnd(t *testing.T) {
	t.Parallel()
	shapes := []placement.Shape{whole(1, 1), whole(1, 4)}
	p, c := demanding(t, Parameters{Vacating: 8}, true, shapes, node("a", 64, 4), node("b", 64, 4))
	run(t, c, "a", 1, 100, 0)
	run(t, c, "b", 1, 100, 0, 1)
	// There is no untouched node. The first card of an empty one costs 7/16 of the price.
	place, found := c.Find(c.Request(whole(1, 1)), c.Root())
	if want := 8 * (4. - 1) / 16; !found || place.Node != "b" || !near(place.Cost, want, 1e-9) {
		t.Errorf("got node %q at %v, want b at %v", place.Node, place.Cost, want)
	}
	r := c.Request(share(1, 50))
	p.Begin(c, r)
	c.Root().States(func(s *placement.State, _ int) {
		free := gpus(s.Percent())
		if want, got := 8*(free*free-(free-.5)*(free-.5))/16, p.Surcharge(r, s); !near(got, want, 1e-9) {
			t.Errorf("half a card of %v costs %v, want %v", free, got, want)
		}
	})
}

func TestNodesMayStayInUseWhileEnoughAreEmpty(t *testing.T) {
	t.Parallel()
	nodes := []placement.Node{node("a", 64, 4), node("b", 64, 4), node("c", 64, 4), node("d", 64, 4)}
	p, c := demanding(t, Parameters{Vacating: 8}, true, []placement.Shape{whole(1, 1), whole(1, 1), whole(1, 1), whole(1, 1), whole(1, 1), whole(1, 1), whole(1, 4)}, nodes...)
	r := c.Request(whole(1, 1))
	p.Begin(c, r)
	// 4 tenths of 16 free GPUs will be requested as 1.6 nodes, and another request may come.
	want := 8 * ((2.1/4 - enough) / (1 - enough)) * 7 / 16
	c.Root().States(func(s *placement.State, _ int) {
		if got := p.Surcharge(r, s); !near(got, want, 1e-9) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	for name, shape := range map[string]placement.Shape{"a request for a whole node": whole(1, 4), "a Pod without GPUs": {CPU: 1000}} {
		r := c.Request(shape)
		p.Begin(c, r)
		c.Root().States(func(s *placement.State, _ int) {
			if got := p.Surcharge(r, s); got != 0 {
				t.Errorf("%s pays %v", name, got)
			}
		})
	}
}

func TestNodesAreNotEmptiedIfNobodyNeedsAWholeOne(t *testing.T) {
	t.Parallel()
	p, c := demanding(t, Parameters{Vacating: 8}, true, []placement.Shape{whole(1, 1), share(1, 50)}, node("a", 64, 4))
	run(t, c, "a", 1, 100, 0)
	r := c.Request(whole(1, 1))
	p.Begin(c, r)
	c.Root().States(func(s *placement.State, _ int) {
		if got := p.Surcharge(r, s); got != 0 {
			t.Errorf("got %v", got)
		}
	})
}

// Node fat is the only one for requests of 60 cores.
func TestOthersKeepOffTheNodesThatSomePodsDependOn(t *testing.T) {
	t.Parallel()
	shapes := []placement.Shape{whole(1, 1), whole(1, 1), whole(60, 2)}
	p, c := demanding(t, Parameters{Dependence: 6}, true, shapes, node("fat", 64, 2), node("slim-1", 16, 2), node("slim-2", 16, 2))
	small := c.Request(whole(1, 1))
	p.Begin(c, small)
	// Half of the demand depends on a third of the GPUs: two thirds of it, as a third would find these
	// anyway. So 2 of 6 free GPUs are needed, and half a one, of 2 that are left.
	want := map[int64]float64{64000: 6, 16000: 0}
	c.Root().States(func(s *placement.State, _ int) {
		if got := p.Surcharge(small, s); !near(got, want[s.CPU()], 1e-9) {
			t.Errorf("a node of %d CPU costs %v, want %v", s.CPU(), got, want[s.CPU()])
		}
	})
	if place, _ := c.Find(small, c.Root()); place.Node != "slim-1" {
		t.Errorf("a small Pod goes to %q", place.Node)
	}
	if place, _ := c.Find(c.Request(whole(60, 2)), c.Root()); place.Node != "fat" {
		t.Errorf("a large Pod goes to %q", place.Node)
	}
}

func TestWhatIsLeftOfTheNodesDecidesAboutTheirPrice(t *testing.T) {
	t.Parallel()
	shapes := []placement.Shape{whole(1, 1), whole(1, 1), whole(60, 1)}
	p, c := demanding(t, Parameters{Dependence: 6}, true, shapes,
		node("fat-1", 64, 2), node("fat-2", 64, 2), node("fat-3", 64, 2), node("slim-1", 16, 2), node("slim-2", 16, 2), node("slim-3", 16, 2))
	small := c.Request(whole(1, 1))
	priceOfFat := func() (price float64) {
		p.Begin(c, small)
		c.Root().States(func(s *placement.State, _ int) {
			if s.CPU() > 16000 {
				price = p.Surcharge(small, s)
			}
		})
		return price
	}
	// A third of the demand depends on half of the GPUs, a sixth of it on these alone.
	needed := func(free float64) float64 { return free/6 + oneMore }
	if got, want := priceOfFat(), 6*(needed(12)/6-enough)/(1-enough); !near(got, want, 1e-9) {
		t.Errorf("with 6 free GPUs one costs %v, want %v", got, want)
	}
	run(t, c, "fat-1", 1, 100, 0, 1)
	run(t, c, "fat-2", 1, 100, 0)
	if got, want := priceOfFat(), 6*(needed(9)/3-enough)/(1-enough); !near(got, want, 1e-9) {
		t.Errorf("with 3 free GPUs one costs %v, want %v", got, want)
	}
}

// How much turnover there is is measured in GPUs.
func TestPricesGrowWithTheTurnover(t *testing.T) {
	t.Parallel()
	p := New(Parameters{Vacating: 8})
	c := clusterOf(t, p, node("a", 64, 4))
	p.LearnEnding(c, c.Request(whole(1, 2)))
	p.Learn(c, c.Request(whole(1, 2)))
	p.Learn(c, c.Request(whole(1, 4)))
	p.Learn(c, c.Request(placement.Shape{CPU: 1000}))
	p.Refresh(c)
	if want := 1. / 4; p.learned.turnover != want {
		t.Errorf("the turnover is %v, want %v", p.learned.turnover, want)
	}
	run(t, c, "a", 1, 100, 0)
	place, _ := c.Find(c.Request(whole(1, 1)), c.Root())
	if want := 8. / 4 * (9 - 4) / 16; !near(place.Cost, want, 1e-9) {
		t.Errorf("got %v, want %v", place.Cost, want)
	}
}

func TestNothingChangesWhileNoPodIsExpectedToEnd(t *testing.T) {
	t.Parallel()
	shapes := []placement.Shape{whole(1, 1), share(1, 30), whole(60, 1), whole(1, 4), {CPU: 2000}}
	without := Default()
	without.Vacating, without.Dependence = 0, 0
	nodes := []placement.Node{node("fat", 64, 4), node("slim", 16, 4), node("small", 16, 2)}
	_, c := demanding(t, Default(), false, shapes, nodes...)
	_, plain := demanding(t, without, false, shapes, nodes...)
	for i := range 12 {
		shape := shapes[i%len(shapes)]
		place, found := c.Find(c.Request(shape), c.Root())
		want, _ := plain.Find(plain.Request(shape), plain.Root())
		if place.Node != want.Node || place.Cost != want.Cost {
			t.Fatalf("Pod %d goes to %q at %v, want %q at %v", i, place.Node, place.Cost, want.Node, want.Cost)
		}
		if !found {
			continue
		}
		for _, cluster := range []*placement.Cluster{c, plain} {
			if err := cluster.Place(placement.Pod{Name: string(rune('a' + i)), Node: place.Node, Use: place.Use}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
