// Copyright The gpu-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"falldio.github.io/gpu-controller/bench/document"
)

// journalResults are what the benchmark of the journal in scheduler/planner writes.
type journalResults struct {
	Nodes, Pods                               int
	Turns                                     []turn
	BytesPerPod, CheckpointBytes              float64
	Dropped                                   uint64
	PauseMilliseconds, CheckpointMilliseconds float64
}

// turn is a turn without the journal and one with it, next to each other.
type turn struct{ Off, On cost }

// cost is what one Pod took.
type cost struct{ Microseconds, CPUMicroseconds, ProcessMicroseconds, AllocatedBytes float64 }

func parseJournalResults(text []byte) (*journalResults, error) {
	measured := &journalResults{}
	if err := json.Unmarshal(text, measured); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	if len(measured.Turns) < 2 {
		return nil, fmt.Errorf("results: there are too few: %s", text)
	}
	return measured, nil
}

// report returns the results for the document.
func (r *journalResults) report() string {
	table := &document.Table{Header: []string{"for each Pod that got a place", "off", "on", "on ÷ off", "95 % confidence"}}
	for _, row := range []struct {
		name string
		of   func(cost) float64
	}{
		{"time, µs", func(c cost) float64 { return c.Microseconds }},
		{"CPU time of the scheduling cycles, µs", func(c cost) float64 { return c.CPUMicroseconds }},
		{"CPU time of the process, µs", func(c cost) float64 { return c.ProcessMicroseconds }},
		{"memory that is allocated, bytes", func(c cost) float64 { return c.AllocatedBytes }},
	} {
		off, on, ratio, low, high := r.compare(row.of)
		table.Add(row.name, fmt.Sprintf("%.0f", off), fmt.Sprintf("%.0f", on), fmt.Sprintf("%.3f", ratio), fmt.Sprintf("%.3f to %.3f", low, high))
	}
	return fmt.Sprintf(`%d nodes, %d Pods that run; %d turns of 0.3 s without the journal, each next to one with it; medians:

%s
For each Pod %.0f bytes are written. The first checkpoint has %.1f MB; it is taken in %.0f ms and costs %.0f ms of CPU time. Dropped were %d records.
`, r.Nodes, r.Pods, len(r.Turns), table, r.BytesPerPod, r.CheckpointBytes/1e6, r.PauseMilliseconds, r.CheckpointMilliseconds, r.Dropped)
}

// compare returns the medians, and the median of the ratios of neighbouring turns with the ends of its 95 % confidence
// interval: on a busy machine, means say more about what else it did.
func (r *journalResults) compare(of func(cost) float64) (off, on, ratio, low, high float64) {
	var before, after, ratios []float64
	for i := range r.Turns {
		before, after = append(before, of(r.Turns[i].Off)), append(after, of(r.Turns[i].On))
		ratios = append(ratios, after[i]/before[i])
	}
	for _, list := range [][]float64{before, after, ratios} {
		slices.Sort(list)
	}
	middle, around := len(ratios)/2, int(math.Ceil(0.98*math.Sqrt(float64(len(ratios)))))
	return before[middle], after[middle], ratios[middle], ratios[max(0, middle-around)], ratios[min(len(ratios)-1, middle+around)]
}
