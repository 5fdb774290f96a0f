// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"falldio.github.io/gpu-controller/bench/document"
	"falldio.github.io/gpu-controller/test/schedulerperf"
)

// parseThroughput reads the Pods scheduled per second from the file that scheduler_perf
// writes for its dashboard.
func parseThroughput(text []byte) (float64, error) {
	var items struct {
		DataItems []struct {
			Data   map[string]float64 `json:"data"`
			Labels map[string]string  `json:"labels"`
		} `json:"dataItems"`
	}
	if err := json.Unmarshal(text, &items); err != nil {
		return 0, err
	}
	for _, item := range items.DataItems {
		if average, found := item.Data["Average"]; found && item.Labels["Metric"] == "SchedulingThroughput" {
			return average, nil
		}
	}
	return 0, errors.New("there is no SchedulingThroughput")
}

// results are measurements by workload and scheduler, in the order of the rounds.
type results map[string]map[string][]measurement

func (r results) add(workload, scheduler string, m measurement) {
	if r[workload] == nil {
		r[workload] = map[string][]measurement{}
	}
	r[workload][scheduler] = append(r[workload][scheduler], m)
}

// table compares the schedulers round by round.
func (r results) table(workloads []string) *document.Table {
	table := &document.Table{Header: []string{
		"workload", "stock, Pods/s", "ours, Pods/s", "ours ÷ stock", "least", "most", "CPU time, stock ÷ ours",
	}}
	for _, name := range workloads {
		var theirs, own, ratios, cpu []float64
		for round, m := range r[name][schedulerperf.Ours] {
			other := r[name][schedulerperf.Stock][round]
			theirs, own = append(theirs, other.throughput), append(own, m.throughput)
			ratios, cpu = append(ratios, m.throughput/other.throughput), append(cpu, other.cpu/m.cpu)
		}
		table.Add(name, fmt.Sprintf("%.0f", middle(theirs)), fmt.Sprintf("%.0f", middle(own)), document.Hundredths(middle(ratios)),
			document.Hundredths(slices.Min(ratios)), document.Hundredths(slices.Max(ratios)), document.Hundredths(middle(cpu)))
	}
	return table
}

// middle returns the median.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

func writeReport(o *options, table *document.Table) error {
	part := document.Part{Tool: "bench/schedulerperf", Name: "results"}
	text := fmt.Sprintf("Pods scheduled per second, median of %d rounds, and the ratio of the same round: median, least and most.\n\n%s", o.rounds, table)
	return part.ReplaceIn(filepath.Join(o.report, document.Name), text)
}
