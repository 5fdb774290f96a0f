// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"falldio.github.io/gpu-controller/bench/document"
)

// The sizes of the cluster: the target, stress, and permanent overload.
var clusterSizes = []int{80, 70, 64}

// goal is what is to be reached, for each size of the cluster.
type goal struct {
	title string
	most  [3]float64
	// value is compared with most; of returns it for a size.
	of func(c *comparison) float64
}

// comparison is what goals are about: results on one size of the cluster.
type comparison struct {
	ours, skip, claims, oracle, undeclared *result
}

// goals are the goals, as ratios within one run.
var goals = []goal{
	{"mean wait ÷ FIFO that skips", [3]float64{1 / 2.5, 1.0 / 6, 1.0 / 7}, func(c *comparison) float64 { return c.ours.all.mean / c.skip.all.mean }},
	{"mean wait ÷ oracle", [3]float64{1.3, 1.6, 1.6}, func(c *comparison) float64 { return c.ours.all.mean / c.oracle.all.mean }},
	{"p95 wait of 16 GPUs or more ÷ claims", [3]float64{1.0 / 12, 1.0 / 25, 1.0 / 25}, func(c *comparison) float64 { return c.ours.sizes[sixteen].p95 / c.claims.sizes[sixteen].p95 }},
	{"mean wait of 8 GPUs ÷ claims", [3]float64{1, 1, 1}, func(c *comparison) float64 { return c.ours.sizes[eight].mean / c.claims.sizes[eight].mean }},
	{"p95 wait of 8 GPUs ÷ claims", [3]float64{2, 2, 2}, func(c *comparison) float64 { return c.ours.sizes[eight].p95 / c.claims.sizes[eight].p95 }},
	{"jobs that wait more than a day ÷ claims", [3]float64{1.0 / 6, 1.0 / 20, 1.0 / 20}, func(c *comparison) float64 { return c.ours.overDay / c.claims.overDay }},
	{"avoidable idleness", [3]float64{.04, .04, .04}, func(c *comparison) float64 { return c.ours.avoidable }},
	{"deficit", [3]float64{.03, .03, .03}, func(c *comparison) float64 { return c.ours.deficit }},
	{"worst virtual cluster's mean slowdown", [3]float64{3, 3, 3}, func(c *comparison) float64 { return c.ours.worstTeam }},
	{"part of the gain that is lost if nothing is declared", [3]float64{1.0 / 3, 1.0 / 3, 1.0 / 3}, func(c *comparison) float64 {
		return (c.undeclared.all.mean - c.ours.all.mean) / (c.skip.all.mean - c.ours.all.mean)
	}},
	{"start estimates off by more than 25 % and 10 min", [3]float64{.4, .4, .4}, func(c *comparison) float64 { return 1 - c.ours.forecast.within }},
	{"their median error ÷ the median wait", [3]float64{.25, .25, .25}, func(c *comparison) float64 { return c.ours.forecast.medianError / c.ours.forecast.medianWait }},
	{"starts later than twice the estimate", [3]float64{.1, .1, .1}, func(c *comparison) float64 { return c.ours.forecast.late }},
	{"starts outside the interval", [3]float64{.2, .2, .2}, func(c *comparison) float64 { return 1 - c.ours.forecast.covered }},
	{"estimates after 6 h off by more than 25 % and 10 min", [3]float64{.5, .5, .5}, func(c *comparison) float64 { return 1 - c.ours.forecast.longWithin }},
}

// goalTable shows what was reached of the goals: the value, and the most that it may be.
func goalTable(comparisons map[int]*comparison) *document.Table {
	table := &document.Table{Header: []string{"the smaller the better"}}
	for _, nodes := range clusterSizes {
		table.Header = append(table.Header, fmt.Sprintf("%d nodes", nodes))
	}
	for _, g := range goals {
		cells := []string{g.title}
		for i, nodes := range clusterSizes {
			c := comparisons[nodes]
			if c == nil {
				cells = append(cells, "–")
				continue
			}
			value, verdict := g.of(c), "missed"
			if value <= g.most[i] {
				verdict = "met"
			}
			cells = append(cells, fmt.Sprintf("%.3f of %.3f, %s", value, g.most[i], verdict))
		}
		table.Add(cells...)
	}
	return table
}
