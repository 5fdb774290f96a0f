// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/bits"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// bound is what the moves cost at least that let the Pods of some jobs start, which
// need 8 or 4 GPUs each, whoever moves whatever wherever to. On each node that Pods of
// the jobs go to, those have to leave that hold the GPUs and the CPU which these need.
// A dynamic program over the nodes chooses who goes where.
//
// It is the optimum of a problem with less in it. Pods that leave and have less than 4
// GPUs need no place; those with 4 need one of 4 as the jobs do. Those with more do not
// leave: whoever comes in their place could as well go where they would go. Gangs need
// not stay whole, and models and memory do not count.
func bound(s *site, jobs []*job, cost func(*job) float64) float64 {
	eights, fours := 0, 0
	cores := int64(0) // of each GPU
	for _, j := range jobs {
		switch j.shape.GPUs {
		case 2 * half:
			eights += len(j.here)
		case half:
			fours += len(j.here)
		}
		cores = j.shape.CPU / int64(j.shape.GPUs)
	}
	tenants := (&run{site: s}).byNode()
	cpu := s.freeCPU()
	least := newGrid(eights, fours)
	for i := range s.nodes {
		node := &s.nodes[i]
		if len(node.GPUs) < half {
			continue
		}
		v := vacating{node: node, tenants: tenants[node.Name], cost: cost, cpu: cpu[node.Name], cores: cores}
		least.add(append(v.ways(half), v.ways(2*half)...))
	}
	return least.at(eights, fours)
}

// half is how many GPUs half of a large node has.
const half = 4

// freeCPU is what is free of each node.
func (s *site) freeCPU() map[string]int64 {
	free := map[string]int64{}
	for i := range s.nodes {
		free[s.nodes[i].Name] = s.nodes[i].CPU
	}
	for _, j := range s.jobs {
		for i, here := range j.here {
			if here {
				free[j.pods[i].Node] -= j.shape.CPU
			}
		}
	}
	return free
}

// way is a way to use a node: it takes so many more Pods of 8 and of 4 GPUs than
// leave it, at a cost.
type way struct {
	eights, fours int
	cost          float64
}

// mostOwed is how many more Pods of 4 GPUs may have left, in between, than places for
// them were found.
const mostOwed = 8

// grid is what it costs to have room for so many Pods of 8 GPUs and so many of 4, which
// may be less than none.
type grid struct {
	cost          [][]float64
	eights, fours int
}

func newGrid(eights, fours int) *grid {
	g := &grid{eights: eights, fours: fours}
	for range eights + 1 {
		g.cost = append(g.cost, slices.Repeat([]float64{math.Inf(1)}, fours+mostOwed+1))
	}
	g.cost[0][mostOwed] = 0
	return g
}

func (g *grid) at(eights, fours int) float64 { return g.cost[eights][fours+mostOwed] }

// add offers one more node, which can be used in one of some ways.
func (g *grid) add(ways []way) {
	before := make([][]float64, len(g.cost))
	for i := range g.cost {
		before[i] = slices.Clone(g.cost[i])
	}
	for _, one := range ways {
		for a := range before {
			for b, cost := range before[a] {
				// More than is needed is as good as what is needed.
				toA, toB := min(a+one.eights, g.eights), min(b+one.fours, g.fours+mostOwed)
				if toB >= 0 {
					g.cost[toA][toB] = min(g.cost[toA][toB], cost+one.cost)
				}
			}
		}
	}
}

// vacating finds out who has to leave a node.
type vacating struct {
	node    *placement.Node
	tenants []tenant
	cost    func(*job) float64
	// cpu is what is free, cores what each GPU needs, both in milli-cores.
	cpu, cores int64
}

// ways returns those in which so many GPUs can get free. All sets of GPUs are tried.
func (v *vacating) ways(gpus int) []way {
	cheapest := map[int]float64{} // by how many Pods of 4 GPUs leave
	for set := range 1 << len(v.node.GPUs) {
		if bits.OnesCount(uint(set)) != gpus { //nolint:gosec // not negative
			continue
		}
		fours, cost := v.leave(set, int64(gpus)*v.cores)
		if known, seen := cheapest[fours]; !math.IsInf(cost, 1) && (!seen || cost < known) {
			cheapest[fours] = cost
		}
	}
	var list []way
	for fours, cost := range cheapest {
		if gpus == 2*half {
			list = append(list, way{eights: 1, fours: -fours, cost: cost})
		}
		list = append(list, way{fours: gpus/half - fours, cost: cost})
	}
	return list
}

// leave is what it costs at least if all leave that hold one of a set of GPUs, and
// others if there is too little CPU; and how many of those have 4 GPUs.
func (v *vacating) leave(set int, cpu int64) (fours int, cost float64) {
	free, cheapest := v.cpu, math.Inf(1)
	for _, one := range v.tenants {
		holds := slices.ContainsFunc(one.job.pods[one.index].GPUs, func(gpu int) bool { return set>>gpu&1 == 1 })
		if !holds {
			cheapest = min(cheapest, v.cost(one.job))
			continue
		}
		if one.job.shape.GPUs > half {
			return 0, math.Inf(1)
		}
		if one.job.shape.GPUs == half {
			fours++
		}
		cost += v.cost(one.job)
		free += one.job.shape.CPU
	}
	if free < cpu {
		cost += cheapest // at least one more
	}
	return fours, cost
}
