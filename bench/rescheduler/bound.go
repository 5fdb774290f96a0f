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
// It is the optimum of a problem with less in it. Pods that leave need no place but for
// those with 4 GPUs, which need one with as much CPU as the least of them, and those with
// 8, which do not leave: whoever comes in their place, and needs less CPU, could as well
// go where they would go. Of a gang that is on several nodes each node is charged a part.
// Models and memory do not count.
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
	uses := usesOf(cores*half, s.leastCPU())
	tenants := (&trial{site: s}).byNode()
	cpu := s.freeCPU()
	least := newGrid(eights, fours)
	for i := range s.nodes {
		node := &s.nodes[i]
		if len(node.GPUs) >= half {
			v := vacating{node: node, tenants: tenants[node.Name], cost: cost, cpu: cpu[node.Name]}
			least.add(v.ways(uses))
		}
	}
	return least.at(eights, fours)
}

// leastCPU is what Pods with 4 GPUs need at least that run.
func (s *site) leastCPU() int64 {
	least := int64(math.MaxInt64 / 4)
	for _, j := range s.jobs {
		if j.started && j.shape.GPUs == half {
			least = min(least, j.shape.CPU)
		}
	}
	return least
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

// way is a way to use a node, at a cost: it takes Pods of 8 and of 4 GPUs of the jobs,
// and so many more of the other Pods with 4 GPUs than leave it.
type way struct {
	eights, fours, others int
	cost                  float64
}

// use is for whom GPUs and CPU of a node get free.
type use struct {
	way
	gpus int
	cpu  int64
}

// usesOf are all uses of a node; four is what a job's Pod of 4 GPUs needs of CPU, other
// what another one needs.
func usesOf(four, other int64) []use {
	return []use{
		{way{fours: 1}, half, four},
		{way{others: 1}, half, other},
		{way{eights: 1}, 2 * half, 2 * four},
		{way{fours: 2}, 2 * half, 2 * four},
		{way{fours: 1, others: 1}, 2 * half, four + other},
		{way{others: 2}, 2 * half, 2 * other},
	}
}

// mostOwed is how many more of the other Pods with 4 GPUs may have left, in between,
// than places for them were found.
const mostOwed = 8

// grid is what it costs to have room for so many Pods of 8 GPUs, so many of 4, and for
// all others that leave but so many.
type grid struct {
	eights, fours int
	cost          []float64
}

func newGrid(eights, fours int) *grid {
	g := &grid{eights: eights, fours: fours}
	g.cost = slices.Repeat([]float64{math.Inf(1)}, (eights+1)*(fours+1)*(2*mostOwed+1))
	g.cost[g.index(0, 0, 0)] = 0
	return g
}

// index is where a cost is. Owed is less than 0 if there are places that nobody needs
// yet.
func (g *grid) index(eights, fours, owed int) int {
	return (eights*(g.fours+1)+fours)*(2*mostOwed+1) + owed + mostOwed
}

func (g *grid) at(eights, fours int) float64 {
	best := math.Inf(1)
	for owed := -mostOwed; owed <= 0; owed++ {
		best = min(best, g.cost[g.index(eights, fours, owed)])
	}
	return best
}

// add offers one more node, which can be used in one of some ways.
func (g *grid) add(ways []way) {
	before := slices.Clone(g.cost)
	for eights := range g.eights + 1 {
		for fours := range g.fours + 1 {
			for owed := -mostOwed; owed <= mostOwed; owed++ {
				cost := before[g.index(eights, fours, owed)]
				if math.IsInf(cost, 1) {
					continue
				}
				for _, one := range ways {
					// More than is needed is as good as what is needed.
					if left := owed - one.others; left <= mostOwed {
						to := g.index(min(eights+one.eights, g.eights), min(fours+one.fours, g.fours), max(-mostOwed, left))
						g.cost[to] = min(g.cost[to], cost+one.cost)
					}
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
	cpu     int64 // free, in milli-cores
}

// ways returns those in which the node can be used. All sets of GPUs are tried.
func (v *vacating) ways(uses []use) []way {
	cheapest := map[way]float64{}
	for set := range 1 << len(v.node.GPUs) {
		for _, one := range uses {
			if bits.OnesCount(uint(set)) != one.gpus {
				continue
			}
			others, cost := v.leave(set, one.cpu)
			its := one.way
			its.others -= others
			if known, seen := cheapest[its]; !math.IsInf(cost, 1) && (!seen || cost < known) {
				cheapest[its] = cost
			}
		}
	}
	list := make([]way, 0, len(cheapest))
	for its, cost := range cheapest {
		its.cost = cost
		list = append(list, its)
	}
	return list
}

// leave is what it costs at least if all leave that hold one of a set of GPUs, and
// others if there is too little CPU; and how many of those have 4 GPUs.
func (v *vacating) leave(set int, cpu int64) (fours int, cost float64) {
	free, cheapest := v.cpu, math.Inf(1)
	gone := map[*job]bool{}
	for _, one := range v.tenants {
		holds := slices.ContainsFunc(one.job.pods[one.index].GPUs, func(gpu int) bool { return set>>gpu&1 == 1 })
		if !holds {
			cheapest = min(cheapest, v.charge(one.job))
			continue
		}
		if one.job.shape.GPUs >= 2*half {
			return 0, math.Inf(1)
		}
		if one.job.shape.GPUs == half {
			fours++
		}
		if !gone[one.job] {
			gone[one.job] = true
			cost += v.charge(one.job)
		}
		free += one.job.shape.CPU
	}
	if free < cpu {
		cost += cheapest // at least one more
	}
	return fours, cost
}

// charge is what a node has to pay at least if a job leaves it: all Pods of a gang move
// then.
func (v *vacating) charge(j *job) float64 {
	nodes := map[string]bool{}
	for i := range j.pods {
		nodes[j.pods[i].Node] = true
	}
	return v.cost(j) * float64(len(j.pods)) / float64(len(nodes))
}
