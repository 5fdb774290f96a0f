// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"falldio.github.io/gpu-controller/pkg/placement"
)

const (
	// smallNodes is how many nodes of the cluster a small case has.
	smallNodes = 4
	// slack is the ratio of free GPUs in a small case to the GPUs that the task needs.
	slack = 1.25
)

// comparison is the cost of small cases for ours, and the least cost possible.
type comparison struct {
	cases, missed, unknown int
	// ours and least are sums over the cases that ours solved.
	ours, least float64
	// equal is in how many of them ours costs no more than the least.
	equal int
}

// compareSmall repeatedly takes some nodes out of a cluster, with what runs there, ends
// jobs until a large task would fit if all that is free were in one place, and compares
// the moves of ours with the best ones. With fewest only the number of moves counts, else
// also the lost work.
func compareSmall(s *site, cases int, fewest bool, seed int64) (*comparison, error) {
	random := rand.New(rand.NewPCG(uint64(seed), 11)) //nolint:gosec // a run repeats
	result := &comparison{}
	for tries := 0; result.cases < cases && tries < 20*cases; tries++ {
		small, large, err := smallCase(s, random)
		if err != nil {
			return nil, err
		}
		if small == nil {
			continue
		}
		if err := result.add(small, large, fewest); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// smallCase returns a few nodes, and a task that does not fit there but might; or
// nothing if it fits.
func smallCase(s *site, random *rand.Rand) (*site, *job, error) {
	small, err := newSite(chosenNodes(s, random))
	if err != nil {
		return nil, nil, err
	}
	shapes := [][2]int{{1, 8}, {1, 4}, {2, 4}} // Pods × GPUs
	kind := shapes[random.IntN(len(shapes))]
	large := largeJob(0, kind[0], kind[1])
	if err := small.takeOver(s); err != nil {
		return nil, nil, err
	}
	jobs := small.sorted()
	random.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	capacity := 0
	for i := range small.nodes {
		capacity += len(small.nodes[i].GPUs) * placement.Card
	}
	for _, j := range jobs {
		if float64(capacity)*(1-small.used()) >= slack*float64(large.percent()) {
			break
		}
		small.end(j)
	}
	if _, fits, err := small.cluster.Plan(large.gang()); err != nil || fits {
		return nil, nil, err
	}
	return small, large, nil
}

// chosenNodes returns a few nodes that have enough GPUs for large tasks.
func chosenNodes(s *site, random *rand.Rand) []placement.Node {
	var fitting, chosen []placement.Node
	for i := range s.nodes {
		if len(s.nodes[i].GPUs) >= half {
			fitting = append(fitting, s.nodes[i])
		}
	}
	for _, i := range random.Perm(len(fitting))[:smallNodes] {
		chosen = append(chosen, fitting[i])
	}
	return chosen
}

// takeOver runs what another site runs on the same nodes; of gangs, the members that run
// there.
func (s *site) takeOver(from *site) error {
	known := map[string]bool{}
	for i := range s.nodes {
		known[s.nodes[i].Name] = true
	}
	for _, j := range from.sorted() {
		clone := newJob(j.name, j.shape, 0)
		clone.ends, clone.saved, clone.started = j.ends, j.saved, true
		for i := range j.pods {
			if known[j.pods[i].Node] {
				clone.pods, clone.placed, clone.movedAt = append(clone.pods, j.pods[i]), append(clone.placed, true), append(clone.movedAt, -1)
			}
		}
		if len(clone.pods) == 0 {
			continue
		}
		s.jobs[clone.name] = clone
		for i := range clone.pods {
			if err := s.cluster.Place(placement.Pod{Name: clone.podName(i), Node: clone.pods[i].Node, Use: clone.pods[i].Use}); err != nil {
				return err
			}
		}
	}
	return nil
}

// add solves a case with ours and with the oracle.
func (c *comparison) add(small *site, large *job, fewest bool) error {
	by, err := newOurs(small.nodes, fewest)
	if err != nil {
		return err
	}
	cost := func(j *job) float64 { return moveCost(small, j, fewest) }
	oracle := newOracle(small, large, cost)
	r, err := simulate(small, []*job{large}, by, 0)
	if err != nil {
		return err
	}
	solved := len(r.startedLater()) == 1
	limit := math.Inf(1)
	if solved {
		limit = float64(r.moved)
		if !fewest {
			limit = r.lost + float64(r.moved)*perMove
		}
	}
	// It has to find the solution of ours, or a better one.
	least, known := oracle.least(limit * (1 + 1e-6))
	switch {
	case !known:
		c.unknown++
		return nil
	case math.IsInf(least, 1):
		return nil // it is infeasible
	case !solved:
		c.cases++
		c.missed++
		return nil
	}
	if least > limit*(1+1e-7)+1e-3 {
		return fmt.Errorf("the best there is costs %g, and ours found moves that cost %g", least, limit)
	}
	c.cases++
	c.ours += limit
	c.least += least
	if limit <= least+1e-3 {
		c.equal++
	}
	return nil
}

// perMove is the constant cost of a move, in GPU-seconds.
const perMove = 60

// moveCost returns the cost of moving a Pod of a job.
func moveCost(s *site, j *job, fewest bool) float64 {
	if fewest {
		return 1
	}
	return perMove + s.unsaved(j, 0)*float64(j.shape.Percent())/placement.Card
}

// oracle finds the cheapest set of jobs whose moves let a task fit, by trying sets in the
// order of their cost. It does not check that the moves have an order, so that the
// optimum may cost more than it returns, never less.
type oracle struct {
	site  *site
	large *job
	jobs  []*job // the cheapest first
	costs []float64
	steps int
}

// maxOracleSteps is how many placements are tried until a case counts as unknown.
const maxOracleSteps = 3_000_000

func newOracle(s *site, large *job, cost func(*job) float64) *oracle {
	o := &oracle{site: s, large: large}
	price := func(j *job) float64 { return cost(j) * float64(len(j.placed)) }
	for _, j := range s.sorted() {
		if j.shape.Percent() > 0 {
			o.jobs = append(o.jobs, j)
		}
	}
	slices.SortStableFunc(o.jobs, func(a, b *job) int {
		switch {
		case price(a) < price(b):
			return -1
		case price(a) > price(b):
			return 1
		}
		return 0
	})
	for _, j := range o.jobs {
		o.costs = append(o.costs, price(j))
	}
	return o
}

// least returns the lowest cost below a limit; infinite if there is none at any cost.
// known is false if it takes too long to find out.
func (o *oracle) least(limit float64) (cost float64, known bool) {
	best := limit
	moved := make([]bool, len(o.jobs))
	if math.IsInf(limit, 1) { // is it feasible at all? if all jobs move, they can go anywhere
		for i := range moved {
			moved[i] = true
		}
		fits := o.fits(moved)
		return math.Inf(1), !fits && o.steps < maxOracleSteps
	}
	var choose func(from int, sum float64)
	choose = func(from int, sum float64) {
		if sum >= best-1e-9 || o.steps > maxOracleSteps {
			return
		}
		if o.possible(moved) && o.fits(moved) {
			best = sum
			return
		}
		for i := from; i < len(o.jobs) && sum+o.costs[i] < best-1e-9; i++ {
			moved[i] = true
			choose(i+1, sum+o.costs[i])
			moved[i] = false
		}
	}
	choose(0, 0)
	return best, o.steps <= maxOracleSteps
}

// possible reports whether the task alone fits without some jobs: a quick check.
func (o *oracle) possible(moved []bool) bool {
	o.steps++
	b := o.bins(moved)
	room := 0
	for i := range b {
		left := b[i]
		for left.take(&o.large.shape, -1) {
			room++
		}
	}
	return room >= len(o.large.placed)
}

// bins returns what is free without some jobs.
func (o *oracle) bins(moved []bool) []bin {
	bins := make([]bin, len(o.site.nodes))
	index := map[string]int{}
	for i := range o.site.nodes {
		n := &o.site.nodes[i]
		bins[i] = bin{model: n.Model, cpu: n.CPU, memory: n.Memory, cards: len(n.GPUs)}
		for card := range n.GPUs {
			bins[i].free[card] = placement.Card
		}
		index[n.Name] = i
	}
	away := map[*job]bool{}
	for i, is := range moved {
		away[o.jobs[i]] = is
	}
	for _, j := range o.site.jobs {
		if away[j] {
			continue
		}
		for i := range j.pods {
			bins[index[j.pods[i].Node]].hold(&j.pods[i].Use)
		}
	}
	return bins
}

// fits reports whether there is a place for all moved jobs and for the task.
func (o *oracle) fits(moved []bool) bool {
	var items []*placement.Shape
	for range o.large.placed {
		items = append(items, &o.large.shape)
	}
	for i, is := range moved {
		if is {
			for range o.jobs[i].placed {
				items = append(items, &o.jobs[i].shape)
			}
		}
	}
	slices.SortStableFunc(items, func(a, b *placement.Shape) int { return b.Percent() - a.Percent() })
	return o.arrange(o.bins(moved), items)
}

// arrange places items, largest first, trying all ways.
func (o *oracle) arrange(bins []bin, items []*placement.Shape) bool {
	if len(items) == 0 {
		return true
	}
	for i := range bins {
		before := bins[i]
		tried := map[int]bool{}
		for _, card := range before.choices(items[0]) {
			if o.steps++; o.steps > maxOracleSteps {
				return false
			}
			if card >= 0 && tried[before.free[card]] {
				continue // as good as one before
			}
			if card >= 0 {
				tried[before.free[card]] = true
			}
			if bins[i].take(items[0], card) && o.arrange(bins, items[1:]) {
				return true
			}
			bins[i] = before
		}
	}
	return false
}

// bin is what is free of a node.
type bin struct {
	model       string
	cpu, memory int64
	cards       int
	free        [placement.MaxCards]int
}

// hold subtracts what a Pod holds.
func (b *bin) hold(use *placement.Use) {
	b.cpu -= use.CPU
	b.memory -= use.Memory
	for _, card := range use.GPUs {
		b.free[card] -= use.Percent
	}
}

// choices returns the cards for a share, or -1 for whole GPUs, which are all alike.
func (b *bin) choices(shape *placement.Shape) []int {
	if shape.Share == 0 {
		return []int{-1}
	}
	var list []int
	for card := range b.cards {
		if b.free[card] >= shape.Share {
			list = append(list, card)
		}
	}
	return list
}

// take takes what a shape needs, a share from a card; it is false if that is not free.
func (b *bin) take(shape *placement.Shape, card int) bool {
	if b.cpu < shape.CPU || b.memory < shape.Memory || (len(shape.Models) > 0 && !slices.Contains(shape.Models, b.model)) {
		return false
	}
	if card >= 0 {
		b.free[card] -= shape.Share
	}
	left := shape.GPUs
	for i := 0; i < b.cards && left > 0; i++ {
		if b.free[i] == placement.Card {
			b.free[i] = 0
			left--
		}
	}
	b.cpu -= shape.CPU
	b.memory -= shape.Memory
	return left == 0
}

// join adds the results of another comparison.
func (c *comparison) join(other *comparison) {
	c.cases += other.cases
	c.missed += other.missed
	c.unknown += other.unknown
	c.equal += other.equal
	c.ours += other.ours
	c.least += other.least
}

// percent returns the least cost in percent of ours.
func (c *comparison) percent() float64 { return 100 * c.least / c.ours }
