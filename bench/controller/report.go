// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"falldio.github.io/gpu-controller/bench/document"
)

// report returns the tables.
func report(o *options, results []*result) string {
	header := []string{"what"}
	for _, r := range results {
		header = append(header, r.name)
	}
	if len(results) > 1 {
		header = append(header, "ratio")
	}
	table := &document.Table{Header: header}
	add := func(name, format string, value func(*result) float64) {
		cells := []string{name}
		for _, r := range results {
			cells = append(cells, fmt.Sprintf(format, value(r)))
		}
		if len(results) > 1 {
			cells = append(cells, ratio(value(results[0]), value(results[1])))
		}
		table.Add(cells...)
	}
	seconds := func(d time.Duration) float64 { return d.Seconds() }
	add("from the start to filled caches, s", "%.1f", func(r *result) float64 { return seconds(r.filled) })
	add("from filled caches until every task was handled, s", "%.1f", func(r *result) float64 { return seconds(r.passed) })
	add("heap in use, MiB", "%.0f", func(r *result) float64 { return r.heapMiB })
	add("most memory (RSS), MiB", "%.0f", func(r *result) float64 { return r.peakMiB })
	add("writes per minute while nothing changes", "%.0f", func(r *result) float64 { return r.writes })
	add("CPU while nothing changes, of a core", "%.1f %%", func(r *result) float64 { return 100 * r.restCores })
	add("reads per minute while nothing changes", "%.1f", func(r *result) float64 { return r.reads })
	add("CPU while tasks come and go, of a core", "%.1f %%", func(r *result) float64 { return 100 * r.churnCores })
	add("tasks that came per second, and ended", "%.1f", func(r *result) float64 { return r.churned })
	add("writes for each of them", "%.1f", func(r *result) float64 { return r.churnWrites })
	add("refused attempts per minute", "%.1f", func(r *result) float64 { return r.attempts })
	add("statuses written per minute for refused tasks", "%.1f", func(r *result) float64 { return r.statuses })
	return fmt.Sprintf("%d tasks with a Pod each, %d nodes, %d Pods of other owners; %d more tasks per second that come and go; %d tasks that a quota refuses:\n\n%s",
		o.tasks, o.nodes, o.nodes*othersPerNode, o.rate, o.refused, table)
}

func ratio(ours, baseline float64) string {
	if baseline == 0 {
		return ""
	}
	return document.Hundredths(ours / baseline)
}
