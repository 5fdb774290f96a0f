// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/bench/process"
)

// speedTable compares the systems' times.
func speedTable(r results, kinds []kind) *document.Table {
	table := &document.Table{Header: []string{
		"gangs × Pods", "raw clients", "kube-scheduler", "ours", "E", "E, to the status", "E, no status", "E by CPU", "R", "R by CPU",
	}}
	for _, k := range kinds {
		table.Add(k.String(), r.cell(floor, k, podRate, "%.0f"), r.cell(bare, k, podRate, "%.0f"), r.cell(ours, k, podRate, "%.0f"),
			spread(r.ratios(floor, ours, k, seconds)), spread(r.ratios(floor, ours, k, reported)), spread(r.ratios(least, ours, k, seconds)),
			spread(r.ratios(floor, ours, k, busyPerPod)), spread(r.ratios(ours, bare, k, seconds)), spread(r.ratios(ours, bare, k, busyPerPod)))
	}
	return table
}

// cell formats the median of a number, or a dash.
func (r results) cell(system string, k kind, number func(*record) float64, format string) string {
	value, found := r.median(system, k, number)
	if !found {
		return "–"
	}
	return fmt.Sprintf(format, value)
}

func writesTable(r results, kinds []kind) *document.Table {
	table := &document.Table{Header: []string{
		"gangs × Pods", "raw clients, all per Pod", "kube-scheduler, all per Pod", "ours, all per Pod",
		"ours, per Pod without the GPUTask's", "of them Events", "ours, per GPUTask",
	}}
	for _, k := range kinds {
		table.Add(k.String(), r.cell(floor, k, putsPerPod, "%.2f"), r.cell(bare, k, putsPerPod, "%.2f"), r.cell(ours, k, putsPerPod, "%.2f"),
			r.cell(ours, k, writesPerPod, "%.2f"), r.cell(ours, k, eventsPerPod, "%.2f"), r.cell(ours, k, writesPerTask, "%.2f"))
	}
	return table
}

// columns are the processes of the table of CPU times; all others are "the rest".
var columns = []struct {
	title string
	names []string
}{
	{"API server", []string{"kube-apiserver"}},
	{"etcd", []string{"etcd"}},
	{"KWOK", []string{"kwok"}},
	{"scheduler", []string{"kube-scheduler", "gpu-scheduler"}},
	{"gpu-controller", []string{"gpu-controller"}},
	{"controller-manager", []string{"kube-controller-manager"}},
	{"node agents", []string{"nodeagent"}},
	{"benchmark", []string{process.Self}},
}

func cpuTable(r results, kinds []kind) *document.Table {
	table := &document.Table{Header: []string{"gangs × Pods, system"}}
	for _, c := range columns {
		table.Header = append(table.Header, c.title)
	}
	table.Header = append(table.Header, "all", "all, without idle work")
	for _, k := range kinds {
		for i := range systems {
			s := &systems[i]
			if len(r.of(s.name, k, false)) == 0 {
				continue
			}
			row := []string{k.String() + ", " + s.title}
			for _, c := range columns {
				row = append(row, r.cell(s.name, k, func(m *record) float64 { return m.cpuOf(c.names) }, "%.2f"))
			}
			table.Add(append(row, r.cell(s.name, k, cpuPerPod, "%.2f"), r.cell(s.name, k, busyPerPod, "%.2f"))...)
		}
	}
	return table
}

// cpuOf returns the CPU time in ms per Pod of some processes.
func (r *record) cpuOf(names []string) float64 {
	total := 0.0
	for _, name := range names {
		total += r.CPU[name]
	}
	return 1000 * total / float64(r.pods())
}

func gangsTable(r results, kinds []kind) *document.Table {
	table := &document.Table{Header: []string{
		"gangs × Pods, system", "gangs", "partial", "longest pause between two bindings, s", "slowest binding, s", "longest from the first to the last binding, s",
	}}
	for _, k := range kinds {
		for _, name := range []string{bare, tasks, ours} {
			var gangs, partial int
			var pause, slowest, whole float64
			for _, m := range slices.Concat(r.of(name, k, false), r.of(name, k, true)) {
				gangs, partial = gangs+m.Gangs, partial+m.partial()
				pause, slowest, whole = max(pause, percentile(m.Pauses, 100)), max(slowest, m.SlowestBinding), max(whole, m.LongestSpread)
			}
			if gangs > 0 && k.size > 1 {
				table.Add(k.String()+", "+titleOf(name), fmt.Sprint(gangs), fmt.Sprint(partial),
					document.Hundredths(pause), document.Hundredths(slowest), document.Hundredths(whole))
			}
		}
	}
	return table
}

func latencyTable(r results, kinds []kind) *document.Table {
	table := &document.Table{Header: []string{"gangs × Pods, system", "Pods/s", "gangs", "p50", "p90", "p99", "max", "all bound, p99"}}
	for _, k := range kinds {
		for i := range systems {
			var latencies, bindings []float64
			rate := 0.0
			for _, m := range r.of(systems[i].name, k, true) {
				latencies, bindings = append(latencies, m.Latencies...), append(bindings, m.BindLatencies...)
				rate = m.Rate
			}
			if len(latencies) == 0 {
				continue
			}
			row := []string{k.String() + ", " + systems[i].title, fmt.Sprintf("%.0f", rate), fmt.Sprint(len(latencies))}
			for _, percent := range []float64{50, 90, 99, 100} {
				row = append(row, document.Hundredths(percentile(latencies, percent)))
			}
			table.Add(append(row, document.Hundredths(percentile(bindings, 99)))...)
		}
	}
	return table
}
