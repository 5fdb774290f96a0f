// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
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
		for _, name := range ours {
			table.Add(name, p.name, fmt.Sprintf("%.1f %%", 100*p.cpu[name]), fmt.Sprintf("%d MiB", p.memory[name]), fmt.Sprintf("%.1f", writesOf(p, name)))
		}
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n%d nodes with 8 GPUs, %d Pods that run all the time; %v for each part.\n\n%s", o.nodes, o.pods, o.each, table.String())
	for i := range parts {
		p := &parts[i]
		fmt.Fprintf(&text, "\n%s: all of Kubernetes and the simulation used %.2f cores in all; %.1f Pods per second began to run. Writes per second, by user: %s.\n",
			upperFirst(p.name), p.whole, p.started, users(p.writes))
	}
	return text.String() + "\n"
}

// writesOf returns the writes of a process: the names of users end with those of the processes.
func writesOf(p *part, process string) float64 {
	total := 0.0
	for user, rate := range p.writes {
		if user == process || strings.HasSuffix(user, ":"+process) {
			total += rate
		}
	}
	return total
}

// users lists the users that write, those that write most first.
func users(writes map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(writes), func(a, b string) int {
		if writes[a] != writes[b] {
			if writes[a] > writes[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%s %.1f", name, writes[name])
	}
	return strings.Join(texts, ", ")
}

func upperFirst(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
