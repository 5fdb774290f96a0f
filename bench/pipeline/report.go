// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"falldio.github.io/gpu-controller/bench/document"
)

// plotFile is the plot's name in the document's folder.
const plotFile = "pipeline.svg"

// reportPart is the report's part of the document.
var reportPart = document.Part{Tool: "bench/pipeline", Name: "results"}

// writeReport writes the measurements at one scale into a folder.
func writeReport(folder string, r results, o *options) error {
	if err := plotRates(filepath.Join(folder, plotFile), r, o.kinds); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "![Pods per second](%s)\n\n%s\n", plotFile, conditions(r, o))
	for _, t := range []struct {
		title string
		table *document.Table
	}{
		{"Speed: Pods per second (median), and ratios of the times of the same round: median (least–most).", speedTable(r, o.kinds)},
		{"Writes: etcd's puts without leases and heartbeats. A GPUTask's are those of the object and of Events about it.", writesTable(r, o.kinds)},
		{"CPU time in ms per Pod (median), idle work included.", cpuTable(r, o.kinds)},
		{"Gangs, over all rounds.", gangsTable(r, o.kinds)},
		{"Latency in s from when a GPUTask is to be created until all its Pods run, at half the floor's rate.", latencyTable(r, o.kinds)},
	} {
		if !t.table.Empty() {
			fmt.Fprintf(&b, "%s\n\n%s\n", t.title, t.table)
		}
	}
	return reportPart.ReplaceIn(filepath.Join(folder, document.Name), b.String())
}

// conditions describes the conditions of the measurements.
func conditions(r results, o *options) string {
	var sizes []string
	for _, k := range o.kinds {
		sizes = append(sizes, k.scaled(o.scale).String())
	}
	var rounds int
	var others []float64
	for i := range r {
		rounds = max(rounds, r[i].Round+1)
		others = append(others, othersCores(&r[i]))
	}
	return fmt.Sprintf("%d nodes with 8 GPUs, Pods with %s GPU, %s gangs × Pods (scale %g), %d rounds. "+
		"Others used %.2f of the machine's cores (median; at most %.2f). A dash: not measured, or others disturbed it.\n",
		o.nodes, o.amount, strings.Join(sizes, ", "), o.scale, rounds, median(others), percentile(others, 100))
}
