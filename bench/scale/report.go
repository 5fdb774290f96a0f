// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"falldio.github.io/gpu-controller/bench/document"
)

// tables returns the results as Markdown.
func tables(o *options, parts []part) string {
	table := document.Table{Header: []string{"process", "", "CPU, of a core", "memory", "writes per second"}}
	for i := range parts {
		p := &parts[i]
		for _, name := range slices.Concat(ours, []string{baseline}) {
			table.Add(name, p.name, fmt.Sprintf("%.1f %%", 100*p.cpu[name]), fmt.Sprintf("%d MiB", p.memory[name]), fmt.Sprintf("%.1f", writesOf(p, name)))
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d nodes with 8 GPUs, %d Pods that run all the time; measured for %v at rest and %v under churn.\n\n%s", o.nodes, o.pods, o.rest, o.churn, table.String())
	for i := range parts {
		p := &parts[i]
		fmt.Fprintf(&text, "\n%s: all processes of the cluster, ours, those of Kubernetes and the simulation, used %.2f cores%s. Writes per second, by resource: %s.\n",
			upperFirst(p.name), p.whole, p.pods(), kinds(p))
	}
	return text.String()
}

// pods says how many Pods began to run, if any were to.
func (p *part) pods() string {
	if p.wanted == 0 {
		return ""
	}
	return fmt.Sprintf("; of the %d Pods per second that were to start, %.1f did", p.wanted, p.started)
}

// isOf reports whether a write is one of a process: the names of users end with those of the
// processes.
func (w write) isOf(process string) bool {
	return w.user == process || strings.HasSuffix(w.user, ":"+process)
}

// oursWithoutLeases counts the writes of all our processes but those of leases.
func oursWithoutLeases(counts map[write]int) int {
	total := 0
	for kind, count := range counts {
		if kind.what != "leases" && slices.ContainsFunc(ours, kind.isOf) {
			total += count
		}
	}
	return total
}

func writesOf(p *part, process string) float64 {
	total := 0.0
	for kind, rate := range p.writes {
		if kind.isOf(process) {
			total += rate
		}
	}
	return total
}

// kinds lists what our processes write, what they write most first.
func kinds(p *part) string {
	var texts []string
	for _, process := range ours {
		ofProcess := slices.SortedFunc(maps.Keys(p.writes), func(a, b write) int { return cmp.Compare(p.writes[b], p.writes[a]) })
		for _, kind := range ofProcess {
			if kind.isOf(process) {
				texts = append(texts, fmt.Sprintf("%s %s %.2f", process, kind.what, p.writes[kind]))
			}
		}
	}
	if len(texts) == 0 {
		return "none"
	}
	return strings.Join(texts, ", ")
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
