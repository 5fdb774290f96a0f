// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/bits"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// bound returns a lower bound of the cost of moves that let the Pods of some jobs start,
// which need 8 or 4 GPUs each, whatever moves wherever to. On each node that Pods of the
// jobs go to, the Pods that hold the GPUs and the CPU that these need have to leave. A
// dynamic program over the nodes chooses which Pods go where.
//
// It is the optimum of a relaxed problem. Pods that leave need no place, except those
// with 4 GPUs, which need one with as much CPU as the smallest of them, and those with 8,
// which do not leave: whatever takes their place, and needs less CPU, could as well go
// where they would go. Each node of a gang that is on several nodes is charged a part of
// its cost. Models and memory are ignored.
func bound(s *site, jobs []*job, cost func(*job) float64) float64 {
	eights, fours := 0, 0
	cores := int64(0) // of each GPU
	for _, j := range jobs {
		switch j.shape.GPUs {
		case 2 * half:
			eights += len(j.placed)
		case half:
			fours += len(j.placed)
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

// leastCPU returns the minimum CPU of the running Pods with 4 GPUs.
func (s *site) leastCPU() int64 {
	least := int64(math.MaxInt64 / 4)
	for _, j := range s.jobs {
		if j.started && j.shape.GPUs == half {
			least = min(least, j.shape.CPU)
		}
	}
	return least
}

// half is the number of GPUs of half a large node.
const half = 4

// freeCPU returns the free CPU of each node.
func (s *site) freeCPU() map[string]int64 {
	free := map[string]int64{}
	for i := range s.nodes {
		free[s.nodes[i].Name] = s.nodes[i].CPU
	}
	for _, j := range s.jobs {
		for i, placed := range j.placed {
			if placed {
				free[j.pods[i].Node] -= j.shape.CPU
			}
		}
	}
	return free
}

// way is a way to use a node, and its cost: it takes Pods of 8 and of 4 GPUs of the jobs,
// and others, which is how many more of the other Pods with 4 GPUs it takes than leave
// it.
type way struct {
	eights, fours, others int
	cost                  float64
}

// use is which Pods go to a node, and the GPUs and the CPU that must be free for them.
type use struct {
	way
	gpus int
	cpu  int64
}

// usesOf returns all uses of a node; four is the CPU of a job's Pod of 4 GPUs, other that
// of other ones.
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

// mostOwed is how many more of the other Pods with 4 GPUs may temporarily have left than
// places for them were found.
const mostOwed = 8

// grid is the cost of having room for a number of Pods of 8 GPUs, of Pods of 4, and for
// all but a number of the others that leave.
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

// index returns the index of a cost. owed is negative if there are places that are not
// needed yet.
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

// add adds a node, which can be used in one of some ways.
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

// vacating finds out which Pods have to leave a node.
type vacating struct {
	node    *placement.Node
	tenants []tenant
	cost    func(*job) float64
	cpu     int64 // free, in milli-cores
}

// ways returns the ways in which the node can be used. All sets of GPUs are tried.
func (v *vacating) ways(uses []use) []way {
	cheapest := map[way]float64{}
	for set := range 1 << len(v.node.GPUs) {
		for _, one := range uses {
			if bits.OnesCount(uint(set)) != one.gpus {
				continue
			}
			others, cost := v.leave(set, one.cpu)
			w := one.way
			w.others -= others
			if known, seen := cheapest[w]; !math.IsInf(cost, 1) && (!seen || cost < known) {
				cheapest[w] = cost
			}
		}
	}
	list := make([]way, 0, len(cheapest))
	for w, cost := range cheapest {
		w.cost = cost
		list = append(list, w)
	}
	return list
}

// leave returns a lower bound of the cost if all Pods leave that hold one of a set of
// GPUs, and others if there is too little CPU; and how many of the former have 4 GPUs.
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

// charge returns a node's part of the cost of moving a job: all Pods of a gang move.
func (v *vacating) charge(j *job) float64 {
	nodes := map[string]bool{}
	for i := range j.pods {
		nodes[j.pods[i].Node] = true
	}
	return v.cost(j) * float64(len(j.pods)) / float64(len(nodes))
}
