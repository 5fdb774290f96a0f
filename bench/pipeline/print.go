// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// printRecord prints a measurement for people.
func printRecord(out io.Writer, m *measurement, r *record) {
	pods := float64(r.pods())
	fmt.Fprintf(out, "%v: %.2f s, %.0f Pods/s; gang to Running p50 %.2f p90 %.2f p99 %.2f max %.2f s; bound p99 %.2f; partial %d, pause %.2f s, slowest binding %.2f s, spread %.2f s, lost %d\n",
		m, r.Seconds, pods/r.Seconds, percentile(r.Latencies, 50), percentile(r.Latencies, 90), percentile(r.Latencies, 99),
		percentile(r.Latencies, 100), percentile(r.BindLatencies, 99), r.partial(), percentile(r.Pauses, 100), r.SlowestBinding, r.LongestSpread, r.Lost)
	if r.Told > 0 {
		fmt.Fprintf(out, "  all GPUTasks say so after %.2f s;", r.Told)
	}
	for _, stage := range []string{"created", "bound", "running"} {
		fmt.Fprintf(out, "  %s: half after %.2f s, all after %.2f s;", stage, r.Stages[stage][0], r.Stages[stage][1])
	}
	fmt.Fprintf(out, "\n  writes: %.2f puts/Pod (%d, and %d in the background);", float64(r.Puts)/pods, r.Puts, r.Background)
	for _, name := range slices.Sorted(maps.Keys(r.Writes)) {
		fmt.Fprintf(out, " %s %d", name, r.Writes[name])
	}
	fmt.Fprintf(out, "; Events %v\n  CPU ms/Pod (idle ms/s):", r.Events)
	for _, name := range slices.Sorted(maps.Keys(r.CPU)) {
		fmt.Fprintf(out, " %s %.2f (%.0f)", name, 1000*r.CPU[name]/pods, 1000*r.Idle[name])
	}
	total := sum(r.CPU)
	fmt.Fprintf(out, "; sum %.2f, %.2f cores, and others %.2f cores\n", 1000*total/pods, total/r.Window, r.Others/r.Window)
}
