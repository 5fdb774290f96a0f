// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math"
	"testing"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// reserving returns a policy whose only price is that of untouched nodes, in a cluster of
// three nodes with 2 GPUs. It has learned that half of the demand is for whole nodes,
// with 20 cores.
func reserving(t *testing.T) (*Policy, *placement.Cluster) {
	t.Helper()
	p := New(Parameters{Reserve: 2, HalfLife: 1e9})
	c := clusterOf(t, p, node("a", 64, 2), node("b", 64, 2), node("c", 64, 2))
	p.Mix().AddWeight(c.Request(whole(1, 1)), 2)
	p.Mix().AddWeight(c.Request(whole(20, 2)), 1)
	p.Refresh(c)
	return p, c
}

// pod is a Pod with so many cores and some percent of some GPUs of a node.
type pod struct {
	node           string
	cores, percent int
	gpus           []int
}

func TestUntouchedNodesAreKept(t *testing.T) {
	t.Parallel()
	one := whole(1, 1)
	tests := map[string]struct {
		pods  []pod
		shape placement.Shape
		want  float64 // the price of an untouched node
	}{
		// 6 free GPUs are expected to be requested as 1.5 nodes, and another request may come:
		// 2 of 3.
		"some are needed": {nil, one, 2 * (2./3 - 0.3) / 0.7},
		"5 free GPUs will be 1.75 of the two that are left": {
			[]pod{{"a", 1, 100, []int{0}}}, one, 2 * (1.75/2 - 0.3) / 0.7},
		"more are needed than there are": {
			[]pod{{"a", 1, 1, []int{0}}, {"b", 1, 1, []int{0}}}, one, 2},
		"a node without the CPU is not untouched": {
			[]pod{{"a", 45, 0, nil}, {"b", 45, 0, nil}}, one, 2},
		"a node with the CPU is untouched though Pods run there": {
			[]pod{{"a", 44, 0, nil}, {"b", 44, 0, nil}}, one, 2 * (2./3 - 0.3) / 0.7},
		"none is left": {
			[]pod{{"a", 1, 1, []int{0}}, {"b", 1, 1, []int{1}}, {"c", 1, 1, []int{0}}}, one, 0},
		"shares keep away as well":        {nil, share(1, 50), 2 * (2./3 - 0.3) / 0.7},
		"who needs a whole node gets it":  {nil, whole(20, 2), 0},
		"who needs no GPU does no harm":   {nil, placement.Shape{CPU: 1000}, 0},
		"who needs more than a node gets": {nil, whole(1, 3), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, c := reserving(t)
			for _, one := range test.pods {
				run(t, c, one.node, one.cores, one.percent, one.gpus...)
			}
			r := c.Request(test.shape)
			p.Begin(c, r)
			c.Root().States(func(s *placement.State, _ int) {
				want := test.want
				if s.Whole() < 2 || s.CPU() < 20000 {
					want = 0
				}
				if got := p.Surcharge(r, s); !near(got, want, 1e-12) {
					t.Errorf("free %v with %dm CPU: got %v, want %v", s.Free(), s.CPU(), got, want)
				}
			})
		})
	}
}

// One odd node says nothing about the others, and a closed one is no reserve.
func TestTypicalNodesAreKeptDespiteOtherNodes(t *testing.T) {
	t.Parallel()
	p, c := reserving(t)
	if err := c.SetNode(node("odd", 64, 4)); err != nil {
		t.Fatal(err)
	}
	closed := node("closed", 64, 2)
	closed.Closed = true
	if err := c.SetNode(closed); err != nil {
		t.Fatal(err)
	}
	p.Refresh(c)
	p.Begin(c, c.Request(whole(1, 1)))
	c.Root().States(func(s *placement.State, _ int) {
		kept := s.Cards() == 2 && !s.Closed()
		if got := p.Surcharge(nil, s) > 0; got != kept {
			t.Errorf("a node with %d GPUs, closed %v, is kept: %v", s.Cards(), s.Closed(), got)
		}
	})
}

// A cluster that begins without GPUs learns, too.
func TestNodesWithoutGPUsDoNotSpoilThePrices(t *testing.T) {
	t.Parallel()
	p := New(Default())
	c := clusterOf(t, p, node("cpu", 64, 0))
	p.Mix().AddWeight(c.Request(share(1, 50)), 20)
	p.Refresh(c)
	if err := c.SetNode(node("new", 64, 2)); err != nil {
		t.Fatal(err)
	}
	if place, found := c.Find(c.Request(share(1, 50)), c.Root()); !found || place.Node != "new" || math.IsNaN(place.Cost) {
		t.Errorf("found %v: %+v", found, place)
	}
}

func TestNothingIsReservedWhereNodesHaveOneGPU(t *testing.T) {
	t.Parallel()
	p := New(Default())
	c := clusterOf(t, p, node("a", 64, 1), node("b", 64, 1))
	p.Mix().AddWeight(c.Request(whole(1, 1)), 9)
	p.Refresh(c)
	r := c.Request(share(1, 50))
	p.Begin(c, r)
	c.Root().States(func(s *placement.State, _ int) {
		if got := p.Surcharge(r, s); got != 0 {
			t.Errorf("a node costs %v", got)
		}
	})
}
