// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"maps"
	"math/rand/v2"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
)

// learned is what is derived from the mix and the nodes.
type learned struct {
	// cpuPerPercent is the average CPU of requests for GPUs, in milli-cores per percent
	// of a GPU.
	cpuPerPercent float64
	worth         *worth
	futures       [][]*placement.Request
	// scarcity is by model, per GPU.
	scarcity map[string]float64
	// wholeNodes is the fraction of the demand for GPUs that asks for all GPUs of a
	// typical node, and wholeNodeCPU the CPU that it requests with them.
	wholeNodes   float64
	wholeNodeCPU int64
	// cards is how many GPUs a typical node has.
	cards int
	// largestCPU is what the largest node has, in milli-cores.
	largestCPU float64
	// turnover is the fraction of the demand for GPUs that is expected to end, from 0 to 1.
	turnover float64
	// groups are nodes that the same requests depend on, and groupOf the index of the group of
	// each kind of node that others depend on.
	groups  []group
	groupOf map[int]int
}

// unlearned returns the assumptions before anything is known: 11 cores for each GPU, and
// that the rest of a card is worth its size.
func unlearned() learned {
	return learned{cpuPerPercent: 110, worth: proportional(), largestCPU: 128000}
}

// stock is the capacity of the nodes.
type stock struct {
	// gpus counts the GPUs of each model.
	gpus  map[string]float64
	total float64
	// cards is the number of GPUs per node that accounts for the most GPUs in total.
	cards      int
	largestCPU float64
	// kinds are the kinds of nodes that have GPUs.
	kinds []kindStock
}

// kindStock is the capacity of the nodes of a kind.
type kindStock struct {
	// one is the State of one of them.
	one  *placement.State
	gpus float64
}

func stockOf(cluster *placement.Cluster) stock {
	has := stock{gpus: map[string]float64{}, largestCPU: 1}
	bySize := map[int]int{}
	kinds := map[int]kindStock{}
	cluster.Root().States(func(s *placement.State, nodes int) {
		if s.Closed() {
			return
		}
		has.gpus[s.Model()] += float64(s.Cards() * nodes)
		has.total += float64(s.Cards() * nodes)
		has.largestCPU = max(has.largestCPU, float64(s.CPUCapacity()))
		bySize[s.Cards()] += s.Cards() * nodes
		kinds[s.Kind()] = kindStock{one: s, gpus: kinds[s.Kind()].gpus + float64(s.Cards()*nodes)}
	})
	for _, id := range slices.Sorted(maps.Keys(kinds)) {
		if kinds[id].gpus > 0 {
			has.kinds = append(has.kinds, kinds[id])
		}
	}
	for _, size := range slices.Sorted(maps.Keys(bySize)) {
		if has.cards == 0 || bySize[size] >= bySize[has.cards] {
			has.cards = size
		}
	}
	return has
}

// learn derives everything from the mix.
func learn(mix []Weighted, has stock, parameters Parameters) learned {
	l := unlearned()
	l.cards, l.largestCPU = has.cards, has.largestCPU
	demand := demandOf(mix, has.cards)
	if demand.percent == 0 {
		return l
	}
	l.cpuPerPercent = demand.cpu / demand.percent
	l.worth = newWorth(demand.bySize[:])
	l.futures = futuresOf(mix, rand.New(rand.NewPCG(1, 2))) //nolint:gosec // the same futures every time
	if l.turnover = demand.ending / demand.percent; l.turnover > 0 {
		l.groups, l.groupOf = groupsOf(mix, has.kinds)
	}
	l.scarcity = scarcityOf(mix, has, parameters.Rarity)
	l.wholeNodes = demand.wholePercent / demand.percent
	if demand.whole > 0 {
		l.wholeNodeCPU = int64(demand.wholeCPU / demand.whole)
	}
	return l
}

// demand sums up the requests for GPUs, by weight.
type demand struct {
	percent, cpu float64
	// ending is the part of percent that is expected to end.
	ending float64
	// bySize is the demand for cards, by the requested percentage of a card.
	bySize [placement.Card + 1]float64
	// whole is the demand for all cards of a typical node, wholePercent and wholeCPU the
	// GPU percentage and the CPU of these requests in total.
	whole, wholePercent, wholeCPU float64
}

func demandOf(mix []Weighted, cards int) demand {
	var d demand
	for _, weighted := range mix {
		r := weighted.Request
		percent := weighted.Weight * float64(r.Percent())
		if percent == 0 {
			continue
		}
		d.percent += percent
		d.ending += weighted.Ending * float64(r.Percent())
		d.cpu += weighted.Weight * float64(r.CPU)
		if r.Share > 0 {
			d.bySize[r.Share] += weighted.Weight
		} else {
			d.bySize[placement.Card] += weighted.Weight * float64(r.GPUs)
		}
		if r.GPUs == cards {
			d.whole += weighted.Weight
			d.wholePercent += percent
			d.wholeCPU += weighted.Weight * float64(r.CPU)
		}
	}
	return d
}
