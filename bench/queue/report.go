// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/bench/queue/trace"
)

// reportPart is the report's part of the document.
var reportPart = document.Part{Tool: "bench/queue", Name: "results"}

// task is one replay of the report.
type task struct {
	key  taskKey
	seed uint64
	// forecasts is true if start estimates are given, which takes far longer.
	forecasts bool
}

// taskKey is what replays have in common that differ in their seed.
type taskKey struct {
	policy, estimates string
	nodes             int
}

// report replays everything.
type report struct {
	*options
	trace   *trace.Trace
	out     io.Writer
	results map[taskKey][]*result
}

// everyForecast is of how many waiting jobs one gets an estimate in the report.
const everyForecast = 16

// tasks returns what is replayed: what the goals compare with all seeds, the rest with the
// first, and some policies only on the largest cluster. So it is with start estimates: on
// smaller clusters, only the first seed has them.
func (r *report) tasks() []task {
	var list []task
	add := func(seeds int, key taskKey) {
		for seed := range seeds {
			list = append(list, task{key: key, seed: r.seed + uint64(seed)})
		}
	}
	for i, nodes := range r.sizes {
		for seed := range r.seeds {
			list = append(list, task{key: taskKey{ours, mixed, nodes}, seed: r.seed + uint64(seed), forecasts: i == 0 || seed == 0})
		}
		for _, policy := range []string{"oracle", "claims", "skip"} {
			add(r.seeds, taskKey{policy, mixed, nodes})
		}
		for _, estimates := range []string{exact, declared, predicted} {
			add(1, taskKey{ours, estimates, nodes})
		}
		for _, policy := range []string{"strict", "drf"} {
			add(1, taskKey{policy, mixed, nodes})
		}
		if i > 0 {
			continue // these take long
		}
		for _, policy := range []string{"fairshare", "easy", "conservative", "multifactor"} {
			add(1, taskKey{policy, mixed, nodes})
		}
	}
	return list
}

// write replays everything, two at a time, and writes the report into a folder.
func (r *report) write(folder string) error {
	list := r.tasks()
	fmt.Fprintf(r.out, "%d replays of %d jobs\n", len(list), len(r.trace.Jobs))
	if err := r.replayAll(list); err != nil {
		return err
	}
	if err := r.plot(filepath.Join(folder, plotFile)); err != nil {
		return err
	}
	return reportPart.ReplaceIn(filepath.Join(folder, document.Name), r.text())
}

// parallel is how many replays run at a time.
const parallel = 2

func (r *report) replayAll(list []task) error {
	r.results = map[taskKey][]*result{}
	next := make(chan task)
	var mu sync.Mutex
	var failed error
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for one := range next {
				result, err := r.replayTask(one)
				mu.Lock()
				if err != nil && failed == nil {
					failed = err
				}
				if err == nil {
					r.results[one.key] = append(r.results[one.key], result)
					fmt.Fprintln(r.out, result.line())
				}
				mu.Unlock()
			}
		})
	}
	for _, one := range list {
		next <- one
	}
	close(next)
	workers.Wait()
	return failed
}

func (r *report) replayTask(one task) (*result, error) {
	o := *r.options
	o.nodes, o.estimates, o.forecasts = one.key.nodes, one.key.estimates, 0
	if one.forecasts {
		o.forecasts = everyForecast
	}
	e, err := find(one.key.policy, o.reserved)
	if err != nil {
		return nil, err
	}
	return o.replay(e, r.trace, one.seed, nil)
}

// of returns the result of some replays; nil if there are none.
func (r *report) of(policy, estimates string, nodes int) *result {
	list := r.results[taskKey{policy, estimates, nodes}]
	if len(list) == 0 {
		return nil
	}
	return merged(list)
}

func (r *report) comparisons() map[int]*comparison {
	all := map[int]*comparison{}
	for _, nodes := range r.sizes {
		all[nodes] = &comparison{
			ours: r.of(ours, mixed, nodes), skip: r.of("skip", mixed, nodes), claims: r.of("claims", mixed, nodes), oracle: r.of("oracle", mixed, nodes),
			undeclared: r.of(ours, predicted, nodes),
		}
	}
	return all
}

// text returns the results as Markdown.
func (r *report) text() string {
	var t strings.Builder
	first := r.results[taskKey{ours, mixed, r.sizes[0]}][0]
	fmt.Fprintf(&t, "![Waiting time by policy](%s)\n\n", plotFile)
	fmt.Fprintf(&t, "%.0f of %d jobs are measured. The goals, with %d seeds:\n\n%s\n", first.all.jobs, len(r.trace.Jobs), r.seeds, goalTable(r.comparisons()))
	for _, nodes := range r.sizes {
		fmt.Fprintf(&t, "Waiting, in hours, on %d nodes, half of the jobs with a declared limit (mean / p95 / longest by size):\n\n%s\n", nodes, waitTable(r.byPolicy(nodes)))
	}
	nodes := r.sizes[0]
	fmt.Fprintf(&t, "The cluster, %d nodes:\n\n%s\n", nodes, clusterTable(r.byPolicy(nodes)))
	fmt.Fprintf(&t, "The default policy by what is known of run times:\n\n%s\n", r.knowledgeTable())
	fmt.Fprintf(&t, "Start estimates, given to one of %d jobs when it began to wait:\n\n%s\n", everyForecast, r.forecastTable())
	fmt.Fprintf(&t, "Reservations of the default policy, %d nodes: %s\n", nodes, reservations(r.of(ours, mixed, nodes)))
	return t.String()
}

// byPolicy returns the results of all policies.
func (r *report) byPolicy(nodes int) []*result {
	var list []*result
	for _, e := range entrants(r.reserved) {
		if one := r.of(e.name, mixed, nodes); one != nil {
			list = append(list, one)
		}
	}
	return list
}

// reservations says what became of reservations.
func reservations(r *result) string {
	var reasons []string
	for _, reason := range reasonsOf(r.moved) {
		reasons = append(reasons, fmt.Sprintf("%s %d", reason, r.moved[reason]/r.seeds))
	}
	return fmt.Sprintf("%.0f jobs had one; they moved earlier %.0f times and later %.0f times (%s).", r.reserved, r.earlier, r.later, strings.Join(reasons, ", "))
}

// hours formats a duration in hours.
func hours(number float64) string {
	switch {
	case number < 9.95:
		return fmt.Sprintf("%.2f", number)
	default:
		return fmt.Sprintf("%.0f", number)
	}
}

func percent(part float64) string { return fmt.Sprintf("%.1f %%", 100*part) }

// waitTable shows waiting times by policy.
func waitTable(results []*result) *document.Table {
	table := &document.Table{Header: []string{"", "all: mean", "p50", "p95", "p99", "1 GPU", "8", "16 or more", "more than a day"}}
	for _, one := range results {
		cells := []string{one.entrant.title, hours(one.all.mean), hours(one.all.p50), hours(one.all.p95), hours(one.all.p99)}
		for _, index := range []int{0, eight, sixteen} {
			w := &one.sizes[index]
			cells = append(cells, fmt.Sprintf("%s / %s / %s", hours(w.mean), hours(w.p95), hours(w.longest)))
		}
		table.Add(append(cells, fmt.Sprintf("%.0f", one.overDay))...)
	}
	return table
}

// clusterTable shows what the cluster did.
func clusterTable(results []*result) *document.Table {
	table := &document.Table{Header: []string{"", "slowdown", "worst team's", "its turnaround ÷ run time", "allocated (GAR)", "while jobs wait", "nodes in use (SOR)", "free GPUs on nodes in use (GFR)", "avoidable idleness", "deficit"}}
	for _, one := range results {
		table.Add(one.entrant.title, document.Hundredths(one.slowdown), document.Hundredths(one.worstTeam), document.Hundredths(one.worstTurnaround),
			percent(one.allocated), percent(one.allocatedBusy), percent(one.occupied), percent(one.fragmented), percent(one.avoidable), fmt.Sprintf("%.3f", one.deficit))
	}
	return table
}

// knowledgeTable shows ours by what is known of run times.
func (r *report) knowledgeTable() *document.Table {
	table := &document.Table{Header: []string{"mean of all / of 8 / of 16 or more, h"}}
	for _, nodes := range r.sizes {
		table.Header = append(table.Header, fmt.Sprintf("%d nodes", nodes))
	}
	for _, estimates := range estimates() {
		cells := []string{estimates}
		for _, nodes := range r.sizes {
			one := r.of(ours, estimates, nodes)
			cells = append(cells, fmt.Sprintf("%s / %s / %s", hours(one.all.mean), hours(one.sizes[eight].mean), hours(one.sizes[sixteen].mean)))
		}
		table.Add(cells...)
	}
	return table
}

// forecastTable shows how start estimates turned out.
func (r *report) forecastTable() *document.Table {
	table := &document.Table{Header: []string{"", "estimates", "within 25 % or 10 min", "median error, h", "median wait, h", "later than twice", "in the interval", "after 6 h: within"}}
	for _, nodes := range r.sizes {
		a := r.of(ours, mixed, nodes).forecast
		table.Add(fmt.Sprintf("%d nodes", nodes), fmt.Sprintf("%.0f", a.jobs), percent(a.within), hours(a.medianError), hours(a.medianWait), percent(a.late), percent(a.covered), percent(a.longWithin))
	}
	return table
}
