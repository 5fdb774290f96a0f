// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"falldio.github.io/gpu-controller/bench/openb/dataset"
	"falldio.github.io/gpu-controller/pkg/placement"
)

// entrant is a system and its name in tables.
type entrant struct {
	title string
	make  func(nodes []placement.Node) (system, error)
}

// entrants returns the systems that are compared.
func entrants() []entrant {
	return []entrant{
		{"nothing", func([]placement.Node) (system, error) { return nothing{}, nil }},
		{"recreate all", func([]placement.Node) (system, error) { return &recreateAll{done: map[string]bool{}}, nil }},
		{"HighNodeUtilization, 20 %", func([]placement.Node) (system, error) { return &highNodeUtilization{0.2}, nil }},
		{"HighNodeUtilization, 50 %", func([]placement.Node) (system, error) { return &highNodeUtilization{0.5}, nil }},
		{"ours", func(nodes []placement.Node) (system, error) { return newOurs(nodes, false) }},
	}
}

// bench is all measurements.
type bench struct {
	*options
	out   io.Writer
	nodes []placement.Node
	pods  []dataset.Pod
	// totals are in the order of entrants.
	totals []total
	// running is how many Pods run at the beginning, over all seeds.
	running int
	// byMoves and byCost compare small cases.
	byMoves, byCost comparison
	// moves is how many moves ours makes when time stands still and only their number
	// counts, least a lower bound of that number for any system.
	moves, least float64
}

// total is what a system did over all seeds.
type total struct {
	title                  string
	waited                 int
	starts                 []float64 // seconds
	moved, evicted         int
	gpus, broken, unplaced int
	lost                   float64 // GPU-hours
	times                  []time.Duration
}

func newBench(o *options, out io.Writer) (*bench, error) {
	b := &bench{options: o, out: out}
	var err error
	if b.nodes, err = dataset.ReadNodes(filepath.Join(o.data, dataset.NodesFile)); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	if b.pods, err = dataset.ReadPods(filepath.Join(o.data, fmt.Sprintf(dataset.PodsFile, o.trace))); err != nil {
		return nil, fmt.Errorf("--data, --trace: %w", err)
	}
	return b, nil
}

// measure measures everything.
func (b *bench) measure() error {
	for _, e := range entrants() {
		b.totals = append(b.totals, total{title: e.title})
	}
	for seed := b.seed; seed < b.seed+int64(b.seeds); seed++ {
		begin := time.Now()
		s, err := churn(b.nodes, b.pods, b.jobs, seed)
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		if err := b.measureOn(s, seed); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		fmt.Fprintf(b.out, "seed %d: measured in %v\n", seed, time.Since(begin).Round(time.Second))
	}
	return nil
}

func (b *bench) measureOn(s *site, seed int64) error {
	for _, j := range s.jobs {
		b.running += len(j.placed)
	}
	for i, e := range entrants() {
		by, err := e.make(b.nodes)
		if err != nil {
			return err
		}
		r, err := simulate(s, demand(b.kinds), by, horizon)
		if err != nil {
			return fmt.Errorf("%s: %w", e.title, err)
		}
		b.totals[i].add(r)
	}
	if err := b.compareAll(s); err != nil {
		return err
	}
	for _, one := range []struct {
		into   *comparison
		fewest bool
	}{{&b.byMoves, true}, {&b.byCost, false}} {
		found, err := compareSmall(s, b.small, one.fewest, seed)
		if err != nil {
			return err
		}
		one.into.join(found)
	}
	return nil
}

func (t *total) add(r *trial) {
	t.waited += len(r.waited)
	for _, j := range r.startedLater() {
		t.starts = append(t.starts, j.starts)
	}
	t.moved += r.moved
	t.evicted += len(r.evicted)
	t.gpus += r.regained()
	t.broken += len(r.broken)
	t.unplaced += r.unplaced()
	t.lost += r.lost / 3600
	t.times = append(t.times, r.times...)
}

// compareAll compares the moves that ours makes on the whole cluster with the lower
// bound.
func (b *bench) compareAll(s *site) error {
	by, err := newOurs(b.nodes, true)
	if err != nil {
		return err
	}
	r, err := simulate(s, demand(b.kinds), by, 0)
	if err != nil {
		return err
	}
	base, err := simulate(s, demand(b.kinds), nothing{}, 0)
	if err != nil {
		return err
	}
	b.moves += float64(r.moved)
	b.least += bound(base.site, r.startedLater(), func(*job) float64 { return 1 })
	return nil
}

// startedBy returns how many tasks started within some seconds, in percent.
func (t *total) startedBy(seconds float64) float64 {
	count := 0
	for _, start := range t.starts {
		if start <= seconds {
			count++
		}
	}
	return 100 * float64(count) / float64(max(1, t.waited))
}

// meanStart returns the mean time to the start in minutes; a task that did not start
// counts as if it had at the end.
func (t *total) meanStart() float64 {
	sum := float64(t.waited-len(t.starts)) * horizon
	for _, start := range t.starts {
		sum += start
	}
	return sum / float64(max(1, t.waited)) / 60
}

// quantile returns a quantile, in percent, of the times that decisions took.
func (t *total) quantile(percent int) time.Duration {
	if len(t.times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.times))
	return sorted[(len(sorted)-1)*percent/100]
}
